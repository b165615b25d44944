"""The page of error codes, from their registry."""

from app.error_codes import GROUPS, ErrorCode
from docs.scripts.markdown import sentence

__all__ = ["error_page"]


def error_page() -> str:
    groups = "\n".join(
        f"## {group}\n\n" + "\n".join(_entry(entry) for entry in entries) for group, entries in GROUPS.items()
    )
    return f"""# Error codes

`code` of a [problem document](conventions.md#errors), of an entry of its `errors`, or of a failed job's `error`. Codes
are part of the API: they are added, never renamed. A running service has this page at `/docs/errors`, and the `type` of
a problem document is the address of its entry there.

A code without a status occurs only in `errors` or in a job's `error`.

{groups}"""


def _entry(entry: ErrorCode) -> str:
    statuses = f" (status {' or '.join(str(status) for status in entry.statuses)})" if entry.statuses else ""
    return f"### {entry.code}\n\n**{entry.title}**{statuses}. {sentence(entry.meaning)} {sentence(entry.cure)}\n"
