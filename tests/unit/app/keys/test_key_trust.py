"""How long a cached lookup of a key is used, by a clock of the test, and the form of a token."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from sqlalchemy.exc import IntegrityError

from app.db import Database
from app.db.engine import current_time
from app.db.tables import KeyRow
from app.errors import DatabaseUnavailable, NotFound
from app.keys import key_cache, repository, service
from app.keys.key_cache import KeyCache
from tests.support.builders import NOBODY, migrated_database

VALID, OTHER = f"key_{NOBODY}.secret", f"key_{NOBODY}.other"
READ, WRITE = frozenset({"read"}), frozenset({"write"})


class Looks:
    """The database and a clock: what tokens grant, how often it was asked, and what time it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 50.0
        self.grants: dict[str, frozenset[str]] = {VALID: READ}
        self.asked: list[str] = []
        self.is_away = False
        self.seconds = 0.0
        """How long a look takes."""
        monkeypatch.setattr(key_cache, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.cache = KeyCache(self)

    def __call__(self, token: str) -> frozenset[str] | None:
        self.asked.append(token)
        self.now += self.seconds
        if self.is_away:
            raise DatabaseUnavailable("away")
        return self.grants.get(token)

    async def scopes(self, token: str = VALID) -> frozenset[str] | None:
        found = await self.cache.scopes_of(token)
        while self.cache._renewals:
            await asyncio.sleep(0)
        return found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def test_a_key_is_looked_up_again_in_its_second_half_while_it_is_answered_from_memory(looks: Looks) -> None:
    async def run() -> None:
        assert await looks.scopes() == READ
        looks.now += 0.99
        assert await looks.scopes() == READ
        assert len(looks.asked) == 1
        looks.now += 0.01
        looks.grants[VALID] = WRITE
        assert await looks.scopes() == READ, "this request does not wait"
        assert len(looks.asked) == 2
        assert await looks.scopes() == WRITE
        assert len(looks.asked) == 2
        looks.now += 0.99
        assert (await looks.scopes(), len(looks.asked)) == (WRITE, 2), "its time began again with the look"

    asyncio.run(run())


def test_a_key_that_was_not_used_is_not_believed_beyond_its_time(looks: Looks) -> None:
    async def run() -> None:
        assert await looks.scopes() == READ
        del looks.grants[VALID]
        looks.now += 2.0
        assert await looks.scopes() is None
        assert len(looks.asked) == 2
        looks.grants[VALID] = READ
        assert await looks.scopes() is None, "a rejection is remembered too"
        looks.now += 1.99
        assert await looks.scopes() is None
        looks.now += 0.01
        assert (await looks.scopes(), len(looks.asked)) == (READ, 3)

    asyncio.run(run())


def test_a_key_works_on_a_machine_that_has_just_started(looks: Looks) -> None:
    looks.now = 0.0
    assert asyncio.run(looks.scopes()) == READ


def test_the_time_of_an_answer_begins_when_it_was_asked_for(looks: Looks) -> None:
    async def run() -> None:
        looks.seconds = 1.5
        assert await looks.scopes() == READ
        looks.now += 0.5
        del looks.grants[VALID]
        assert await looks.scopes() is None

    asyncio.run(run())


def test_a_renewed_key_that_was_revoked_is_rejected(looks: Looks) -> None:
    async def run() -> None:
        assert await looks.scopes() == READ
        looks.now += 1.5
        del looks.grants[VALID]
        assert await looks.scopes() == READ
        assert (await looks.scopes(), len(looks.asked)) == (None, 2)
        assert (len(looks.cache._valid), len(looks.cache._rejected)) == (0, 1)
        looks.now += 2.0
        looks.grants[VALID] = READ
        assert await looks.scopes() == READ
        assert (len(looks.cache._valid), len(looks.cache._rejected)) == (1, 0)

    asyncio.run(run())


@pytest.mark.parametrize(("late_seconds", "expected"), [(0.0, READ), (9.99, READ), (10.0, None)])
def test_a_look_that_is_late_is_waited_for_with_the_old_answer_but_not_for_ever(
    looks: Looks, late_seconds: float, expected: object
) -> None:
    async def run() -> None:
        assert await looks.scopes() == READ
        looks.now += 1.0
        assert await looks.cache.scopes_of(VALID) == READ  # begins a look
        (renewal,) = looks.cache._renewals.values()
        looks.now += 1.0 + late_seconds
        del looks.grants[VALID]
        assert await looks.cache.scopes_of(VALID) == expected
        await renewal

    asyncio.run(run())


def test_only_one_look_for_a_key_at_a_time(looks: Looks) -> None:
    async def run() -> None:
        assert await looks.scopes() == READ
        looks.now += 1.0
        for _ in range(3):
            assert await looks.cache.scopes_of(VALID) == READ
        assert await looks.scopes() == READ
        assert len(looks.asked) == 2

    asyncio.run(run())


def test_a_database_that_is_away_leaves_the_key_its_time(looks: Looks) -> None:
    async def run() -> None:
        assert await looks.scopes() == READ
        looks.now += 1.0
        looks.is_away = True
        assert await looks.scopes() == READ
        looks.now += 0.99
        assert await looks.scopes() == READ
        looks.now += 0.01
        with pytest.raises(DatabaseUnavailable):
            await looks.scopes()
        assert not looks.cache._renewals

    asyncio.run(run())


def test_the_oldest_answers_are_forgotten_first(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "MAX_VALID_KEYS", 2)
    tokens = [f"key_{NOBODY}.{number}" for number in range(3)]
    looks.grants = dict.fromkeys(tokens, READ)

    async def run() -> None:
        for token in (*tokens, tokens[2], tokens[1]):
            assert await looks.scopes(token) == READ
        assert looks.asked == tokens
        assert len(looks.cache._valid) == 2
        await looks.scopes(tokens[0])
        assert looks.asked == [*tokens, tokens[0]]

    asyncio.run(run())


def test_limits_are_those_that_are_documented() -> None:
    assert (key_cache.KEY_TRUST_SECONDS, key_cache.RENEW_FROM, key_cache.LATE_LOOK_SECONDS) == (2.0, 0.5, 10.0)
    assert (key_cache.MAX_VALID_KEYS, key_cache.MAX_REJECTED_TOKENS, service.MAX_TOKEN_LENGTH) == (10_000, 1_000, 128)


@pytest.fixture(scope="module")
def module_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with migrated_database(f"sqlite:///{tmp_path_factory.mktemp('keys') / 'keys.sqlite3'}") as database:
        yield database


def test_a_key_is_found_by_its_id_and_proved_by_its_secret(module_database: Database) -> None:
    with module_database.write() as session:
        assert not service.any_active(session)
        token, other = service.create(session, "ci", ["read", "predict"]), service.create(session, None, ["admin"])
    key_id, _, secret = token.partition(".")
    assert len(secret) == 43
    assert service.can_be_key(token)
    assert secret not in other
    with module_database.read() as session:
        assert service.authenticate(session, token) == {"read", "predict"}
        assert service.authenticate(session, other) == {"admin"}
        wrong = ("", ".", key_id, f"{key_id}.", f"{key_id}.{secret}x", f"{key_id}.{other.partition('.')[2]}", secret)
        assert [service.authenticate(session, one) for one in wrong] == [None] * len(wrong)
        row = repository.get_active(session, key_id)
        assert row is not None
        assert (row.name, row.scopes, row.revoked_at) == ("ci", ["read", "predict"], None)
        assert secret not in row.secret_sha256
        assert service.any_active(session)
        assert [one.id for one in service.list_all(session)] == sorted([key_id, other.partition(".")[0]])
    with module_database.write() as session:
        service.revoke(session, key_id)
    with module_database.read() as session:
        assert service.authenticate(session, token) is None
        assert service.authenticate(session, other) == {"admin"}
        assert service.any_active(session)
        assert repository.get_active(session, key_id) is None
        assert [one.revoked_at is None for one in service.list_all(session)] == [False, True]
    for unknown in (key_id, f"key_{NOBODY}", "key_1", ""):
        with module_database.write() as session, pytest.raises(NotFound):
            service.revoke(session, unknown)
    with module_database.write() as session:
        service.revoke(session, other.partition(".")[0])
        assert not service.any_active(session)


def test_an_id_that_exists_is_refused_at_once(module_database: Database) -> None:
    with pytest.raises(IntegrityError), module_database.write() as session:  # noqa: PT012
        for _ in range(2):
            row = KeyRow(id=f"key_{NOBODY}", name=None, secret_sha256="", scopes=[], created_at=current_time(session))
            repository.insert(session, row)
            session.expunge(row)
        pytest.fail("the second row was taken")


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (VALID, True),
        (VALID.ljust(128, "x"), True),
        (VALID.ljust(129, "x"), False),
        (f"key_{NOBODY}", True),
        (f"job_{NOBODY}.secret", False),
        ("key_1.secret", False),
    ],
)
def test_what_has_the_form_of_a_key(token: str, expected: bool) -> None:
    assert service.can_be_key(token) is expected


def test_a_secret_that_is_no_text_is_rejected_and_not_a_failure(looks: Looks, module_database: Database) -> None:
    token = f"key_{NOBODY}.\ud800"
    assert asyncio.run(looks.scopes(token)) is None
    with module_database.read() as session:
        assert service.authenticate(session, token) is None
