"""The measurements so far, one line of JSON per run, so that an interrupted benchmark continues where it stopped."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["Ledger", "Record"]

Record = dict[str, Any]


class Ledger:
    """Records by what they are of. Each is on disk before the next run begins."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        self._records = {_key(record): record for record in _stored(path)}

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def __len__(self) -> int:
        return len(self._records)

    def find(self, **of: Any) -> Record | None:
        return self._records.get(_key({"of": of}))

    def once(self, measure: Callable[[], Record], **of: Any) -> Record:
        """The record of this run: the stored one, or measured now and stored."""
        found = self.find(**of)
        if found is None:
            found = {"of": of, **measure()}
            self.add(found)
        return found

    def add(self, record: Record) -> None:
        """In place of an earlier one of the same."""
        if self._records.get(_key(record)) == record:
            return
        self._records[_key(record)] = record
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def forget(self, unwanted: Callable[[Record], bool]) -> None:
        """As if these had never been measured."""
        self._records = {key: record for key, record in self._records.items() if not unwanted(record)}
        self.path.write_text("".join(json.dumps(record) + "\n" for record in self))


def _key(record: Record) -> str:
    return json.dumps(record["of"], sort_keys=True)


def _stored(path: Path) -> Iterator[Record]:
    """Of a run that was killed the last line may be half a line: it is taken off, and measured again."""
    if not path.exists():
        return
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    for line in whole.splitlines():
        yield json.loads(line)
