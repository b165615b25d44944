"""What a process asks of the file system, in order."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class FileCalls:
    """What the process asks of the file system, by the names of the files below a folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.root, self.done = root, list[tuple[str, ...]]()
        for name in ("link", "replace", "utime"):
            monkeypatch.setattr(os, name, self._noting(name, getattr(os, name)))
        fsync, mkdir = os.fsync, os.mkdir

        def sync(handle: int) -> None:
            status = os.fstat(handle)
            assert status.st_size > 0 or stat.S_ISDIR(status.st_mode), "what was written is still in memory"
            self.done.append(("fsync", self._short(os.readlink(f"/proc/self/fd/{handle}"))))
            fsync(handle)

        def make(path: Any, *arguments: Any, **named: Any) -> None:
            mkdir(path, *arguments, **named)
            self.done.append(("mkdir", self._short(path)))

        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(os, "mkdir", make)

    def _noting(self, name: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any, **named: Any) -> None:
            real(*arguments, **named)
            self.done.append((name, *(self._short(one) for one in arguments)))

        return call

    def _short(self, path: Any) -> str:
        """The name below the root, without what is random in it."""
        name = os.path.relpath(path, self.root)
        for prefix in ("staging/blob-", "staging/name-", "store.id."):
            name = f"{prefix}*" if name.startswith(prefix) else name
        return name
