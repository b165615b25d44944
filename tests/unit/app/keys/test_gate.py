"""The gate alone, around an application of the test: whom it lets pass, what it refuses, and what it remembers."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.errors import Unavailable
from app.keys import guard, key_cache, service
from app.keys.guard import Guard
from app.web.bodies import UNCOUNTED_BYTES
from tests.support.builders import NOBODY, temporary_settings

TOKEN = f"key_{NOBODY}.secret"
LIMIT = 1000
UPLOAD_LIMIT = 5000
Heads = list[tuple[bytes, bytes]]


class Clock:
    """Stands still until a test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for module in (guard, key_cache):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))


class Keys:
    """A database that knows keys, and counts the looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scopes: dict[str, frozenset[str]] = {}
        self.looks = 0
        monkeypatch.setattr(service, "any_active", lambda _session: bool(self.scopes))
        monkeypatch.setattr(service, "authenticate", lambda _session, token: self.scopes.get(token))

    @contextmanager
    def reserved_read(self) -> Iterator["Keys"]:
        self.looks += 1
        yield self


class Gate:
    """Requests of clients, through the gate, to an application that answers 204."""

    def __init__(self, folder: Path, keys: Keys, **values: Any) -> None:
        limits = {"max_json_bytes": LIMIT, "max_upload_bytes": UPLOAD_LIMIT, **values}
        self.seen: list[Any] = []
        self.bodies: list[bytes] = []
        self.guard = Guard(self._answer, temporary_settings(folder, **limits), keys)  # type: ignore[arg-type]

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(scope)
        if scope["type"] == "http":
            more, body = True, b""
            while more:
                message = await receive()
                body, more = body + message["body"], message["more_body"]
            self.bodies.append(body)
            await send({"type": "http.response.start", "status": 204, "headers": [(b"x-own", b"1")]})
            await send({"type": "http.response.body", "body": b""})

    async def call(self, method: str, path: str, heads: Heads | None = None, body: bytes = b"") -> "Answer":
        scope = {"type": "http", "method": method, "path": path, "headers": heads or []}
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.guard(scope, receive, send)
        return Answer(sent)

    def ask(self, method: str, path: str, heads: Heads | None = None, body: bytes = b"") -> "Answer":
        return asyncio.run(self.call(method, path, heads, body))


class Answer:
    def __init__(self, sent: list[Any]) -> None:
        self.status = sent[0]["status"]
        self.heads = dict(sent[0]["headers"])
        self.problem = json.loads(sent[1]["body"]) if self.status >= 400 else {}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    return Keys(monkeypatch)


@pytest.fixture
def gate(tmp_path: Path, keys: Keys, clock: Clock) -> Gate:
    return Gate(tmp_path, keys)


def bearer(token: str) -> Heads:
    return [(b"authorization", b"Bearer " + token.encode())]


def test_what_is_not_http_passes_untouched(gate: Gate) -> None:
    passed: list[Any] = []

    async def application(*arguments: Any) -> None:
        passed.append(arguments)

    gate.guard._app = application
    arguments: tuple[Any, ...] = ({"type": "lifespan"}, "receive", "send")
    asyncio.run(gate.guard(*arguments))
    assert passed == [({"type": "lifespan"}, "receive", "send")]


def test_every_answer_has_one_request_id_which_the_application_knows(gate: Gate) -> None:
    passed = gate.ask("GET", "/v1/jobs")
    assert (passed.status, passed.heads[b"x-own"]) == (204, b"1")
    assert gate.seen[0]["state"]["request_id"].encode() == passed.heads[b"x-request-id"]
    refused = gate.ask("GET", "/v1/jobs", [(b"host", b"evil.example")])
    assert refused.heads[b"x-request-id"].decode() == refused.problem["request_id"]
    assert refused.heads[b"x-request-id"] != passed.heads[b"x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("POST", "/v1/jobs", LIMIT),
        ("POST", "/v1/models/m/predict", LIMIT),
        ("POST", "/v1/datasets", UPLOAD_LIMIT),
        ("PATCH", "/v1/uploads/up_1", UPLOAD_LIMIT),
        ("POST", "/v1/uploads/up_1", LIMIT),
        ("POST", "/v1/datasets/more", LIMIT),
        ("PUT", "/v1/datasets", LIMIT),
    ],
)
def test_the_announced_length_is_limited_by_what_the_route_takes(
    gate: Gate, method: str, path: str, limit: int
) -> None:
    def announced(length: bytes) -> int:
        return gate.ask(method, path, [(b"content-length", length)]).status

    assert announced(b"%d" % limit) == 204
    assert announced(b"%d" % (limit + 1)) == 413
    assert announced(b"9" * 5000) == 413, "digits without end are no reason to fail"
    assert announced(b"none") == 204, "the server itself refuses values that are not numbers"


def test_the_limit_is_told(gate: Gate) -> None:
    for path, length, limit in (
        ("/v1/jobs", b"1001", "1000 (HYPERPLANE_MAX_JSON_BYTES)"),
        ("/v1/datasets", b"5001", "5000 (HYPERPLANE_MAX_UPLOAD_BYTES)"),
    ):
        problem = gate.ask("POST", path, [(b"content-length", length)]).problem
        assert problem["code"] == "payload_too_large"
        assert problem["detail"] == f"The body has {length.decode()} bytes; the limit is {limit}."


def test_a_body_that_does_not_say_its_length_is_limited_too(gate: Gate) -> None:
    assert gate.ask("POST", "/v1/jobs", body=b"x" * LIMIT).status == 204
    with pytest.raises(Exception, match="limit of 1000 bytes"):
        gate.ask("POST", "/v1/jobs", body=b"x" * (LIMIT + 1))
    assert gate.ask("POST", "/v1/datasets", body=b"x" * UPLOAD_LIMIT).status == 204
    assert [len(body) for body in gate.bodies] == [LIMIT, UPLOAD_LIMIT]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 204) for host in (b"127.0.0.1:8000", b"localhost", b"LOCALHOST:1", b"[::1]:8000", b"")),
        *((host, 403) for host in (b"evil.example", b"evil.example:8000", b"127.0.0.1.evil.example", b"x" * 400)),
        (b"[::1", 400),
    ],
)
def test_on_loopback_only_loopbacks_names_are_answered(gate: Gate, host: bytes, status: int) -> None:
    answer = gate.ask("GET", "/livez", [(b"host", host)])
    assert answer.status == status
    if status == 400:
        assert (answer.problem["code"], "Host" in answer.problem["detail"]) == ("unparsable", True)


def test_bound_elsewhere_any_name_is_answered(tmp_path: Path, keys: Keys) -> None:
    elsewhere = Gate(tmp_path, keys, host="0.0.0.0")
    assert elsewhere.ask("GET", "/livez", [(b"host", b"svm.example.org")]).status == 204


def test_a_request_without_a_host_is_answered(gate: Gate) -> None:
    assert gate.ask("GET", "/livez", []).status == 204


def test_of_two_headers_of_one_name_the_first_counts(gate: Gate) -> None:
    assert gate.ask("GET", "/livez", [(b"host", b"evil.example"), (b"host", b"localhost")]).status == 403
    assert gate.ask("GET", "/livez", [(b"host", b"localhost"), (b"host", b"evil.example")]).status == 204


@pytest.mark.parametrize(
    ("heads", "status"),
    [
        ([(b"origin", b"http://localhost:8000")], 204),
        ([(b"origin", b"http://LOCALHOST:8000")], 204),
        ([(b"origin", b"http://localhost:9999")], 403),
        ([(b"origin", b"http://evil.example")], 403),
        ([(b"origin", b"null")], 403),
        ([(b"origin", b"http://[::1")], 400),
        ([(b"sec-fetch-site", b"cross-site")], 403),
        ([(b"sec-fetch-site", b"Cross-Site")], 403),
        ([(b"sec-fetch-site", b"same-origin")], 204),
        ([(b"sec-fetch-site", b"same-origin"), (b"origin", b"http://evil.example")], 403),
        ([(b"sec-fetch-site", b"cross-site"), (b"origin", b"http://localhost:8000")], 403),
        ([], 204),
    ],
)
def test_a_page_of_another_origin_changes_nothing(gate: Gate, heads: Heads, status: int) -> None:
    for host in (b"localhost:8000", b"LocalHost:8000"):
        all_heads = [(b"host", host), *heads]
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            answer = gate.ask(method, "/v1/jobs", all_heads)
            assert answer.status == status
            assert answer.problem.get("code") == {204: None, 403: "foreign_origin", 400: "unparsable"}[status]
            assert status != 400 or "Origin" in answer.problem["detail"]
        for method in ("GET", "HEAD", "OPTIONS"):
            assert gate.ask(method, "/v1/jobs", all_heads).status == 204


def test_an_origin_without_a_host_to_compare_with_is_foreign(gate: Gate) -> None:
    assert gate.ask("POST", "/v1/jobs", [(b"origin", b"http://localhost")]).status == 403


def test_without_keys_loopback_is_open_and_remembers_it_for_a_short_time(gate: Gate, keys: Keys, clock: Clock) -> None:
    assert [gate.ask("GET", "/v1/jobs").status for _ in range(3)] == [204] * 3
    assert keys.looks == 1
    clock.now += key_cache.KEY_TRUST_SECONDS - 0.01
    keys.scopes[TOKEN] = frozenset({"read"})
    assert (gate.ask("GET", "/v1/jobs").status, keys.looks) == (204, 1)
    clock.now += 0.01
    assert (gate.ask("GET", "/v1/jobs").status, keys.looks) == (401, 2)
    assert (gate.ask("GET", "/v1/jobs").status, keys.looks) == (401, 2), "that a key exists is remembered as well"
    keys.scopes.clear()
    clock.now += key_cache.KEY_TRUST_SECONDS
    assert gate.ask("GET", "/v1/jobs").status == 204


def test_a_machine_that_has_just_started_is_no_exception(gate: Gate, keys: Keys, clock: Clock) -> None:
    clock.now = 0.0
    assert gate.ask("GET", "/v1/jobs").status == 204
    keys.scopes[TOKEN] = frozenset({"read"})
    clock.now = 2.5
    assert gate.ask("GET", "/v1/jobs").status == 401


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/v2/health/live", "/v2/health/ready"])
def test_health_needs_no_key_and_no_look(gate: Gate, keys: Keys, path: str) -> None:
    keys.scopes[TOKEN] = frozenset({"read"})
    assert gate.ask("GET", path).status == 204
    assert keys.looks == 0
    assert gate.ask("GET", f"{path}/more").status == 401


def test_bound_elsewhere_a_key_is_needed_even_if_none_exists(tmp_path: Path, keys: Keys) -> None:
    elsewhere = Gate(tmp_path, keys, host="0.0.0.0")
    assert elsewhere.ask("GET", "/v1/jobs").status == 401
    keys.scopes[TOKEN] = frozenset({"read"})
    assert elsewhere.ask("GET", "/v1/jobs", bearer(TOKEN)).status == 204


@pytest.mark.parametrize(
    "value", [b"", b"Bearer", b"Bearer ", b"Basic " + TOKEN.encode(), TOKEN.encode(), b"Bearer key_1.x", b"\xff \xff"]
)
def test_what_is_no_key_is_refused_with_a_challenge(gate: Gate, keys: Keys, value: bytes) -> None:
    keys.scopes[TOKEN] = frozenset({"read"})
    answer = gate.ask("GET", "/v1/jobs", [(b"authorization", value)])
    assert (answer.status, answer.problem["code"]) == (401, "unauthorized")
    assert answer.heads[b"www-authenticate"] == b'Bearer realm="hyperplane"'
    assert gate.seen == []


def test_a_refusal_says_whether_a_key_came(gate: Gate, keys: Keys) -> None:
    keys.scopes[TOKEN] = frozenset({"read"})
    assert "An API key is needed" in gate.ask("GET", "/v1/jobs", bearer("")).problem["detail"]
    assert "unknown or revoked" in gate.ask("GET", "/v1/jobs", bearer(f"key_{NOBODY}.other")).problem["detail"]


@pytest.mark.parametrize("value", ["Bearer {}", "bearer {}", "BEARER {}", "Bearer   {}  "])
def test_a_bearer_may_be_spelt_in_any_case(gate: Gate, keys: Keys, value: str) -> None:
    keys.scopes[TOKEN] = frozenset({"read"})
    assert gate.ask("GET", "/v1/jobs", [(b"authorization", value.format(TOKEN).encode())]).status == 204
    assert gate.seen[0]["state"]["caller"] == f"key_{NOBODY}"


ROUTES = [
    ("GET", "/v1/jobs", "read"),
    ("HEAD", "/v1/uploads/up_1", "read"),
    ("OPTIONS", "/v1/jobs", "read"),
    ("POST", "/v1/jobs", "write"),
    ("PUT", "/v1/models/m/aliases/a", "write"),
    ("PATCH", "/v1/uploads/up_1", "write"),
    ("DELETE", "/v1/models/predict", "write"),
    ("GET", "/v1/models/m/predict", "read"),
    ("DELETE", "/v1/models/m/predict", "write"),
    ("POST", "/v1/models/m/predict", "predict"),
    ("POST", "/v1/models/m/invocations", "predict"),
    ("POST", "/v1/models/m/explain", "predict"),
    ("POST", "/v1/jobs/job_1/predict", "predict"),
    ("POST", "/v2/models/m/infer", "predict"),
    ("POST", "/v2/models/m/versions/3/infer", "predict"),
    ("POST", "/v1/models/m/predict/more", "write"),
    ("POST", "/x/v1/models/m/predict", "write"),
    ("POST", "/v1/models/a/b/predict", "write"),
]


@pytest.mark.parametrize(("method", "path", "needed"), ROUTES)
def test_a_route_takes_its_scope_or_admin_and_no_other(
    gate: Gate, keys: Keys, method: str, path: str, needed: str
) -> None:
    for scope in ("read", "write", "predict", "admin"):
        token = f"{TOKEN}-{scope}"
        keys.scopes[token] = frozenset({scope})
        answer = gate.ask(method, path, bearer(token))
        assert (answer.status == 204) is (scope in (needed, "admin")), scope
        if answer.status != 204:
            assert (answer.status, answer.problem["code"]) == (403, "missing_scope")
            assert f"'{needed}'" in answer.problem["detail"]
    keys.scopes[TOKEN] = frozenset({"read", "write", "predict"})
    assert gate.ask(method, path, bearer(TOKEN)).status == 204


LARGE = b"x" * (UNCOUNTED_BYTES + 1)


@pytest.mark.parametrize(
    ("held", "asked", "passes"),
    [
        (("POST", "/v1/jobs"), ("POST", "/v1/jobs"), False),
        (("POST", "/v1/jobs"), ("POST", "/v1/models/m/predict"), True),
        (("POST", "/v1/models/m/predict"), ("POST", "/v1/jobs"), True),
        (("POST", "/v1/models/m/predict"), ("POST", "/v2/models/m/infer"), False),
        (("POST", "/v1/datasets"), ("POST", "/v1/jobs"), True),
        (("POST", "/v1/jobs"), ("POST", "/v1/datasets"), True),
    ],
)
@pytest.mark.parametrize("memory", [{"max_body_memory_bytes": 1}, {"max_body_memory_bytes": len(LARGE)}])
def test_predictions_and_other_requests_have_memory_of_their_own(
    tmp_path: Path,
    keys: Keys,
    held: tuple[str, str],
    asked: tuple[str, str],
    passes: bool,
    memory: dict[str, int],
) -> None:
    """One body fits: by its own setting, or because one body of the largest size always does."""
    most = {"max_json_bytes": len(LARGE), "max_upload_bytes": len(LARGE), **memory}

    async def run() -> None:
        entered, leave = asyncio.Event(), asyncio.Event()
        gate = Gate(tmp_path, keys, **most)
        answer = gate._answer

        async def hold(scope: Any, receive: Any, send: Any) -> None:
            if (scope["method"], scope["path"]) == held and not entered.is_set():
                await receive()
                entered.set()
                await leave.wait()
            await answer(scope, receive, send)

        gate.guard._app = hold
        holding = asyncio.create_task(gate.call(*held, body=LARGE))
        await entered.wait()
        if passes:
            assert (await gate.call(*asked, body=LARGE)).status == 204
        else:
            with pytest.raises(Unavailable, match="HYPERPLANE_MAX_BODY_MEMORY_BYTES"):
                await gate.call(*asked, body=LARGE)
        leave.set()
        assert (await holding).status == 204
        assert (await gate.call(*asked, body=LARGE)).status == 204, "the room is free again"

    asyncio.run(run())
