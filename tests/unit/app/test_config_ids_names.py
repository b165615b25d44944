"""Settings from the environment, ids that sort by time, and the words that clients may choose."""

import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from app.config import Settings, setting_sources, unknown_variables
from app.ids import following_id, is_id, looks_like_id, new_id
from app.names import MAX_LABELS, Labels, Name, Text
from tests.support.builders import NOBODY


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in setting_sources():
        monkeypatch.delenv(f"HYPERPLANE_{name.upper()}", raising=False)


def test_the_defaults_are_safe() -> None:
    settings = Settings()
    assert (settings.host, settings.port, settings.bound_to_loopback) == ("127.0.0.1", 8000, True)
    assert settings.heartbeat_seconds * 3 < settings.lease_seconds, "two lost heartbeats must not lose a lease"
    assert settings.resolved_database_url == f"sqlite:///{Path('data').resolve() / 'hyperplane.db'}"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("", False)],
)
def test_loopback_is_recognized(host: str, loopback: bool) -> None:
    assert Settings(host=host).bound_to_loopback is loopback


def test_variables_set_settings_and_are_named_as_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERPLANE_PORT", "9001")
    monkeypatch.setenv("HYPERPLANE_DATABASE_URL", "postgresql://db/x")
    assert Settings().port == 9001
    assert Settings().resolved_database_url == "postgresql://db/x"
    sources = setting_sources()
    assert sources["port"] == "HYPERPLANE_PORT"
    assert sources["host"] == "default"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("PORT", "65536"), ("PORT", "-1"), ("PORT", "http"), ("WORKERS", "-1"), ("LEASE_SECONDS", "0")),
        *(("MAX_JSON_BYTES", "0"), ("LOG_LEVEL", "loud"), ("DRAIN_SECONDS", "soon")),
    ],
)
def test_a_setting_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"HYPERPLANE_{name}", value)
    with pytest.raises(ValidationError):
        Settings()


def test_a_misspelt_variable_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = unknown_variables()
    monkeypatch.setenv("HYPERPLANE_PROT", "9001")
    monkeypatch.setenv("HYPERPLANE_URL", "http://127.0.0.1:8000")
    assert sorted({*unknown_variables()} - {*before}) == ["HYPERPLANE_PROT"]


def test_a_child_process_sees_the_same_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(port=9002, workers=3, data_dir=Path("here"), log_level="debug", lease_seconds=1.5)
    environment = settings.environment()
    assert "PATH" in environment
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir("/")
    assert Settings() == settings.model_copy(update={"data_dir": tmp_path / "here"})


def test_settings_cannot_be_changed_later() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]


def test_ids_of_many_threads_differ_and_each_threads_ids_ascend() -> None:
    made: list[list[str]] = [[] for _ in range(8)]

    def make(mine: list[str]) -> None:
        mine.extend(new_id("job") for _ in range(500))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for mine in made for one in mine}) == 4000
    assert all(mine == sorted(mine) for mine in made)


def test_a_later_id_sorts_behind_an_earlier_one() -> None:
    first = new_id("ds")
    time.sleep(0.002)
    assert first < new_id("ds")


CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def number_of(one: str) -> int:
    number = 0
    for digit in one.partition("_")[2]:
        number = 32 * number + CROCKFORD.index(digit)
    return number


def test_an_id_tells_its_millisecond_and_the_rest_is_random() -> None:
    before = time.time_ns() // 1_000_000
    numbers = [number_of(new_id("ds")) for _ in range(200)]
    milliseconds = [number >> 80 for number in numbers]
    assert before <= milliseconds[0] <= milliseconds[-1] <= time.time_ns() // 1_000_000
    first_of_each = {number >> 80: number & (2**80 - 1) for number in reversed(numbers)}.values()
    assert all(low > 0 for low in first_of_each)


def test_random_bits_of_ids_are_all_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from app import ids

    class AllOnes:
        def getrandbits(self, count: int) -> int:
            return 2**count - 1

    monkeypatch.setattr(ids, "_random", AllOnes())
    monkeypatch.setattr(ids, "_last", 0)
    monkeypatch.setattr(ids.time, "time_ns", lambda: 5_999_999)
    assert number_of(new_id("ds")) == (5 << 80) + 2**80 - 1
    assert number_of(new_id("ds")) == 6 << 80, "the next one, within the same millisecond"


@pytest.mark.parametrize(
    ("one", "following"),
    [
        (f"evt_{'0' * 26}", f"evt_{'0' * 25}1"),
        (f"evt_{'0' * 25}z", f"evt_{'0' * 24}10"),
        (f"evt_1{'z' * 25}", f"evt_2{'0' * 25}"),
        (f"job_{NOBODY}", f"job_{NOBODY[:-1]}p"),
    ],
)
def test_the_following_id_is_the_next_that_sorts_behind(one: str, following: str) -> None:
    assert following_id(one) == following


def test_an_id_is_one_of_its_kind_only() -> None:
    one = new_id("mdl")
    assert is_id("mdl", one)
    assert not is_id("ds", one)
    assert looks_like_id(one)


@pytest.mark.parametrize(
    "text", ["", "mdl_", f"mdl_{NOBODY}\n", f" mdl_{NOBODY}", f"mdl_{NOBODY}0", f"mdl_{NOBODY[:-1]}", NOBODY]
)
def test_what_is_not_quite_an_id_is_none(text: str) -> None:
    assert not is_id("mdl", text)


def test_a_forked_process_has_ids_of_its_own() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_id("job")[14:].encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as told:
        random_part = told.read().decode()
    assert len(random_part) == 16
    assert new_id("job")[14:] != random_part


def test_letters_that_ids_leave_out_are_not_ids() -> None:
    assert not any(is_id("mdl", f"mdl_{NOBODY[:-1]}{letter}") for letter in "ilouA-_\u0660")


def accepts(kind: object, value: object) -> bool:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", ["a", "A1", "7", "spam.v2_final-x", "a" * 128, "ds_1", "mdl_"])
def test_names_that_are_allowed(name: str) -> None:
    assert accepts(Name, name)


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "a b", ".a", "_a", "-a", "a/b", "a:1", "a@b", "a\n", "\na", "ä", "a\x00", "a" * 129, "../a"),
        *(f"mdl_{NOBODY}", f"job_{NOBODY}", f"whatever_{NOBODY}"),
    ],
)
def test_names_that_are_not(name: str) -> None:
    assert not accepts(Name, name)


@given(text=st.text(st.characters(exclude_categories=[])))
def test_text_is_what_both_databases_and_json_can_hold(text: str) -> None:
    holds = "\x00" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
    assert accepts(Text, text) is holds


@pytest.mark.parametrize(
    ("labels", "allowed"),
    [
        ({}, True),
        ({"a.b-c_d": "any text, ü too"}, True),
        ({"k": "v" * 256}, True),
        ({"k": "v" * 257}, False),
        ({"": "v"}, False),
        ({"a b": "v"}, False),
        ({"a\n": "v"}, False),
        ({"k": "\x00"}, False),
        ({"k": "\ud800"}, False),
        ({"k": 1}, False),
        ({f"k{number}": "v" for number in range(MAX_LABELS)}, True),
        ({f"k{number}": "v" for number in range(MAX_LABELS + 1)}, False),
    ],
)
def test_labels(labels: dict[str, str], allowed: bool) -> None:
    assert accepts(Labels, labels) is allowed
