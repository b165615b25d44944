"""Runs the code blocks of a page in order, as a reader would who pastes them: one shell, one Python, one folder."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.support.documents import ROOT, Block

PAGE_ADDRESS = "127.0.0.1:8000"
"""The address in the pages; it is replaced by that of the service under test."""
LINKED = ("app", "solvers", "docs", "tests", "benchmarks", "README.md")
END = "-- end of the block --"

_PYTHON = f"""
import sys, traceback
namespace = {{"__name__": "__main__"}}
while size := sys.stdin.readline():
    code = sys.stdin.read(int(size))
    try:
        exec(compile(code, "<page>", "exec"), namespace)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        sys.exit(1)
    print("\\n{END}", flush=True)
"""


class BlockFailed(AssertionError):
    """A block ended with an error, or printed something else than the page shows."""


class PageSession:
    """A folder that looks like a checkout with a `.venv`, a shell in it and a Python; use it as a context manager."""

    def __init__(self, folder: Path, address: str, data_dir: Path) -> None:
        self._folder, self._address = folder, address
        for name in LINKED:
            (folder / name).symlink_to(ROOT / name)
        (folder / ".venv").symlink_to(sys.prefix)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HYPERPLANE_")}
        path = f"{_strict_curl(folder)}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**clean, "PATH": path, "PYTHONPATH": str(ROOT), "HYPERPLANE_DATA_DIR": str(data_dir)}
        self._started: dict[str, subprocess.Popen[str]] = {}
        self._last_output = ""

    def run(self, block: Block) -> None:
        """Run a block, or compare it with what the last one printed if it is marked as output."""
        if block.is_output:
            _compare(block, self._last_output)
        elif block.language in ("bash", "python") and block.reason_not_run is None:
            self._last_output = self._execute(block)

    def __enter__(self) -> "PageSession":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started.values():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait(30)
            process.stdout.close()

    def _execute(self, block: Block) -> str:
        code = block.text.replace(PAGE_ADDRESS, self._address)
        process = self._process(block.language)
        assert process.stdin is not None
        assert process.stdout is not None
        if block.language == "bash":
            process.stdin.write(f"{{\n{code}\n}} </dev/null\nprintf '\\n%s\\n' '{END}'\n")
        else:
            process.stdin.write(f"{len(code)}\n{code}")
        process.stdin.flush()
        lines = []
        for line in process.stdout:
            if line.rstrip("\n") == END:
                return "".join(lines)
            lines.append(line)
        raise BlockFailed(f"{block} ended with an error:\n{''.join(lines)}")

    def _process(self, language: str) -> "subprocess.Popen[str]":
        if language not in self._started:
            command = ["bash", "-eu"] if language == "bash" else [sys.executable, "-c", _PYTHON]
            self._started[language] = subprocess.Popen(
                command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return self._started[language]


def _strict_curl(folder: Path) -> Path:
    """A folder with a `curl` that fails when the service refuses: pages do not look at every answer."""
    programs = folder / ".programs"
    programs.mkdir()
    program = programs / "curl"
    program.write_text(f'#!/bin/sh\nexec {shutil.which("curl")} --fail-with-body "$@"\n')
    program.chmod(0o755)
    return programs


def _compare(block: Block, printed: str) -> None:
    expected = re.escape(block.text.replace("\n…\n", "\n<lines>\n").strip())
    pattern = expected.replace("<lines>", "(?:.*\n)*?.*").replace("…", ".*?")
    if not re.fullmatch(pattern, printed.strip()):
        raise BlockFailed(f"{block} shows\n{block.text}\nbut the block above it printed\n{printed}")
