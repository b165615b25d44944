"""What the gate relies on when it looks up keys, on every database."""

import pytest
from sqlalchemy import select

from app.db import Database
from app.db.tables import KeyRow
from app.errors import NotFound
from app.keys import repository, service
from tests.support.builders import NOBODY


def make(database: Database, *scopes: service.Scope, name: str | None = None) -> str:
    with database.write() as session:
        return service.create(session, name, scopes)


def granted(database: Database, token: str) -> frozenset[str] | None:
    with database.read() as session:
        return service.authenticate(session, token)


def revoke(database: Database, key_id: str) -> None:
    with database.write() as session:
        service.revoke(session, key_id)


def test_a_key_grants_its_scopes_and_nothing_else(database: Database) -> None:
    reader, admin = make(database, "read"), make(database, "write", "predict")
    assert granted(database, reader) == {"read"}
    assert granted(database, admin) == {"write", "predict"}


def test_the_secret_itself_is_nowhere_in_the_database(database: Database) -> None:
    secret = make(database, "read", name="ci").partition(".")[2]
    assert len(secret) >= 43, "less than 256 bits"
    with database.read() as session:
        row = session.scalars(select(KeyRow)).one()
        assert secret not in repr({name: value for name, value in vars(row).items() if name != "_sa_instance_state"})
        assert row.name == "ci"


def test_wrong_keys_grant_nothing(database: Database) -> None:
    token, other = make(database, "admin"), make(database, "admin")
    key_id, _, secret = token.partition(".")
    wrong = [
        *("", ".", "key_", key_id, key_id + ".", f".{secret}", f"key_{NOBODY}.{secret}", f"{key_id}.{secret}x"),
        *(f"{key_id}.{secret[:-1]}", f"{key_id}.{other.partition('.')[2]}", f"{key_id}\n.{secret}"),
        *(f"{key_id}.\x00", f"{key_id}.\ud800", f"\x00.{secret}", f"{key_id.upper()}.{secret}", secret),
    ]
    assert [token for token in wrong if granted(database, token) is not None] == []
    assert granted(database, token) == {"admin"}


def test_a_revoked_key_grants_nothing_and_cannot_be_revoked_again(database: Database) -> None:
    token, kept = make(database, "admin"), make(database, "read")
    key_id = token.partition(".")[0]
    revoke(database, key_id)
    assert granted(database, token) is None
    assert granted(database, kept) == {"read"}
    with pytest.raises(NotFound):
        revoke(database, key_id)
    with pytest.raises(NotFound):
        revoke(database, "key_\x00")


def test_any_active_key_is_what_closes_the_service(database: Database) -> None:
    with database.read() as session:
        assert not service.any_active(session)
    key_id = make(database, "read").partition(".")[0]
    with database.read() as session:
        assert service.any_active(session)
    revoke(database, key_id)
    with database.read() as session:
        assert not service.any_active(session)


def test_the_list_shows_active_and_revoked_keys_oldest_first(database: Database) -> None:
    ids = [make(database, "read").partition(".")[0] for _ in range(3)]
    revoke(database, ids[1])
    with database.read() as session:
        rows = repository.list_all(session)
    assert [row.id for row in rows] == ids
    assert [row.revoked_at is None for row in rows] == [True, False, True]
