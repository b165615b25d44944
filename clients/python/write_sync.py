"""Write `hyperplane/_sync` from `hyperplane/_async`: `make sync-client`.

The asynchronous client is the only definition. Its source without `async` and `await` is the synchronous client.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "hyperplane"
NOTICE = "# Written by `make sync-client` from hyperplane/_async. Do not edit it.\n"
REPLACEMENTS = {
    r"The asynchronous client\. `hyperplane/_sync` is written from this folder by `make sync-client`\.": (
        "The synchronous client."
    ),
    r"\bStopAsyncIteration\b": "StopIteration",
    r"\basync (def|with|for)\b": r"\1",
    r"\bawait ": "",
    r"\b__a(enter|exit|iter|next)__\b": r"__\1__",
    r"\ba(close|read|iter_lines|iter_raw)\(": r"\1(",
    r"\basync_(call|read|sleep)\b": r"\1",
    r"\basynccontextmanager\b": "contextmanager",
    r"\bAsync([A-Z]\w*)\b": r"\1",
    r"\bhyperplane\._async\b": "hyperplane._sync",
}
"""Patterns and what stands for them, in this order."""


def sync_source(source: str) -> str:
    """Return the synchronous form of an asynchronous module, formatted."""
    for pattern, replacement in REPLACEMENTS.items():
        source = re.sub(pattern, replacement, source)
    for command in (["check", "--select", "I", "--fix-only", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(FOLDER / "_sync" / "module.py"), "-"]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True).stdout
    return NOTICE + source


def main() -> None:
    for path in sorted((FOLDER / "_async").glob("*.py")):
        (FOLDER / "_sync" / path.name).write_text(sync_source(path.read_text()))


if __name__ == "__main__":
    main()
