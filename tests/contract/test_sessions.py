"""Browsers that sign in: the cookie, the CSRF token, and how a session ends. On every database."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from app.config import Settings
from app.db import Database
from app.db.tables import SessionRow
from app.keys import key_cache, session_store
from app.keys import service as keys
from app.main import create_app
from tests.support.builders import InProcess, checked_problem, migrated_database, temporary_settings

JSON = {"Content-Type": "application/json"}
WEBHOOK = "/v1/webhooks/wh_01m7h944fsex4m8e47tq1ns5tn"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with migrated_database(database_url) as database:
        yield database


@pytest.fixture
def http(database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    monkeypatch.setattr(key_cache, "KEY_TRUST_SECONDS", 0.0)
    settings: Settings = temporary_settings(tmp_path).model_copy(update={"database_url": database_url})
    return InProcess(create_app(settings))


def make_key(database: Database, *scopes: keys.Scope) -> str:
    with database.write() as session:
        return keys.create(session, None, scopes)


def sign_in(http: InProcess, key: str) -> httpx.Response:
    return http.post("/v1/session", json={"key": key})


def cookie_of(response: httpx.Response) -> str:
    return response.headers["set-cookie"].partition(";")[0]


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(http: InProcess, database: Database) -> None:
    answer = sign_in(http, make_key(database, "admin"))
    assert answer.status_code == 201
    flags = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= flags, "12 hours"
    assert answer.json()["scopes"] == ["admin"]
    secret = cookie_of(answer).partition(".")[2]
    assert len(secret) == 43, "256 bits"
    assert secret not in answer.text
    with database.read() as session:
        row = session.scalars(select(SessionRow)).one()
        assert secret not in (row.id, row.secret_sha256)
        assert row.expires_at - row.created_at == timedelta(hours=12)


@pytest.mark.parametrize(("scheme", "is_secure"), [("http", False), ("https", True)])
def test_a_cookie_that_came_over_https_is_never_sent_without_it(
    http: InProcess, database: Database, scheme: str, is_secure: bool
) -> None:
    answer = sign_in(InProcess(http.app, f"{scheme}://127.0.0.1"), make_key(database, "admin"))
    flags = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert ("secure" in flags) is is_secure


def test_keys_work_beside_sessions(http: InProcess, database: Database) -> None:
    key = make_key(database, "read")
    sign_in(http, key)
    assert http.get("/v1/jobs", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def test_a_cookie_reads_and_changes_need_the_token_too(http: InProcess, database: Database) -> None:
    answer = sign_in(http, make_key(database, "read", "write"))
    cookie = {"Cookie": cookie_of(answer)}
    token = {"X-CSRF-Token": answer.json()["csrf_token"]}
    assert http.get("/v1/jobs", headers=cookie).status_code == 200
    for headers in (cookie, cookie | {"X-CSRF-Token": "0" * 64}):
        assert checked_problem(http.request("DELETE", WEBHOOK, headers=headers), 403)["code"] == "csrf_token_missing"
    checked_problem(http.request("DELETE", WEBHOOK, headers=cookie | token), 404)


def test_a_read_only_session_changes_nothing(http: InProcess, database: Database) -> None:
    answer = sign_in(http, make_key(database, "read"))
    headers = {"Cookie": cookie_of(answer), "X-CSRF-Token": answer.json()["csrf_token"]}
    assert checked_problem(http.request("DELETE", WEBHOOK, headers=headers), 403)["code"] == "missing_scope"
    assert http.get("/v1/session", headers=headers).json()["scopes"] == ["read"]


def test_revoking_the_key_ends_the_session(http: InProcess, database: Database) -> None:
    key = make_key(database, "admin")
    make_key(database, "admin")
    cookie = {"Cookie": cookie_of(sign_in(http, key))}
    assert http.get("/v1/jobs", headers=cookie).status_code == 200
    with database.write() as session:
        keys.revoke(session, key.partition(".")[0])
    checked_problem(http.get("/v1/jobs", headers=cookie), 401)
    assert http.get("/v1/session", headers=cookie).json()["signed_in"] is False


def test_signing_out_ends_the_session_everywhere(http: InProcess, database: Database) -> None:
    answer = sign_in(http, make_key(database, "read"))
    headers = {"Cookie": cookie_of(answer), "X-CSRF-Token": answer.json()["csrf_token"]}
    checked_problem(http.request("DELETE", "/v1/session", headers={"Cookie": headers["Cookie"]}), 403)
    ended = http.request("DELETE", "/v1/session", headers=headers)
    assert ended.status_code == 204
    flags = {part.strip().lower() for part in ended.headers["set-cookie"].split(";")[1:]}
    assert {"max-age=0", "path=/", "httponly", "samesite=strict"} <= flags
    checked_problem(http.get("/v1/jobs", headers=headers), 401)


def test_an_expired_session_is_over_and_forgotten(
    http: InProcess, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key(database, "read")
    monkeypatch.setattr(session_store, "SESSION_SECONDS", 0)
    cookie = {"Cookie": cookie_of(sign_in(http, key))}
    checked_problem(http.get("/v1/jobs", headers=cookie), 401)
    sign_in(http, key)
    with database.read() as session:
        assert len(session.scalars(select(SessionRow)).all()) == 1


def test_what_is_no_key_gets_no_session(http: InProcess, database: Database) -> None:
    session = cookie_of(sign_in(http, make_key(database, "admin"))).partition("=")[2]
    for wrong in ("", "nothing", "key_x.y", session, "key_01m7h944fsex4m8e47tq1ns5tn.secret"):
        answer = sign_in(http, wrong)
        checked_problem(answer, 401)
        assert "set-cookie" not in answer.headers
    checked_problem(sign_in(http, "x" * 256), 401)
    checked_problem(sign_in(http, "x" * 257), 422)
    checked_problem(http.get("/v1/jobs", headers={"Authorization": f"Bearer {session}"}), 401)
    key = make_key(database, "admin")
    checked_problem(http.get("/v1/jobs", headers={"Cookie": f"{session_store.COOKIE}={key}"}), 401)


def test_an_open_service_asks_for_no_sign_in(http: InProcess) -> None:
    found = http.get("/v1/session").json()
    assert (found["required"], found["signed_in"]) == (False, False)
    assert set(found["scopes"]) == {"admin", "predict", "read", "write"}


def test_a_key_is_shown_what_it_may_do(http: InProcess, database: Database) -> None:
    """Without a session there is no CSRF token and no end; no cache may store the answer."""
    key, other = make_key(database, "read", "predict"), make_key(database, "admin")
    answer = http.get("/v1/session", headers={"Authorization": f"Bearer {key}"})
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {
        "required": True,
        "signed_in": True,
        "key_id": key.partition(".")[0],
        "scopes": ["predict", "read"],
        "csrf_token": None,
        "expires_at": None,
    }
    session = cookie_of(sign_in(http, other)).partition("=")[2]
    for wrong in ("nothing", session, f"{key.partition('.')[0]}.{other.partition('.')[2]}"):
        shown = http.get("/v1/session", headers={"Authorization": f"Bearer {wrong}"}).json()
        assert (shown["signed_in"], shown["key_id"], shown["scopes"]) == (False, None, [])
    shown = http.get("/v1/session", headers={"Cookie": cookie_of(sign_in(http, key))}).json()
    assert (shown["signed_in"], shown["key_id"], len(shown["csrf_token"])) == (True, key.partition(".")[0], 64)
    assert shown["expires_at"] is not None


def test_a_session_is_a_row_before_its_transaction_ends(database: Database) -> None:
    key = make_key(database, "read")
    with database.write() as session:
        token = session_store.open_session(session, key)
        assert token is not None
        signed_in = session_store.find(session, token)
        assert signed_in is not None
        assert signed_in.scopes == frozenset({"read"})
