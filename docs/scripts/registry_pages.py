"""The pages of settings, solvers and file formats, from their registries."""

from dataclasses import fields
from typing import Any

from pydantic_core import PydanticUndefined

import solvers
from app.config import PREFIX, Settings
from app.datasets.formats.file_format import file_formats
from app.datasets.formats.table import ReadOptions
from app.models.exports.export_format import export_formats
from app.web.media_types import ENCODING_SUFFIXES
from docs.scripts.markdown import sentence, table

__all__ = ["format_page", "settings_page", "solver_page"]

MIB, GIB = 1 << 20, 1 << 30


def settings_page() -> str:
    rows = [
        (f"`{PREFIX}{name.upper()}`", _default(field), _limits(field.metadata), sentence(field.description or ""))
        for name, field in Settings.model_fields.items()
    ]
    return f"""# Settings

A setting is an environment variable. `hyperplane config` prints every setting, its value and where the value comes
from. Flags of `hyperplane serve` and `hyperplane worker` override variables. A misspelt `{PREFIX}` variable is
reported by `config`.

{table(("variable", "default", "allowed", "meaning"), rows)}
The command line and the client also read `HYPERPLANE_URL` and `HYPERPLANE_API_KEY`.
"""


def solver_page() -> str:
    listed = solvers.available()
    overview = table(
        ("solver", "tasks", "losses", "biases", "reaches any `tol`"),
        [
            (
                f"[`{name}`](#{name})",
                *(", ".join(info[key]) for key in ("tasks", "losses", "biases")),
                "yes" if info["exact"] else "no",
            )
            for name, info in listed.items()
        ],
    )
    sections = "\n".join(_solver_section(name, info) for name, info in listed.items())
    return f"""# Solvers and their options

`"solver": "auto"`, the default, chooses by the shape of the data and says why in the job's `result.solver_reason`.
Options go into `"solver_options"` of a job, or `options=` of `solvers.train`. `GET /v1/solvers` answers with the same
facts as this page. How each method works, and where it differs from its paper, is in
[The problem and its solvers](../solvers.md).

A solver that does not reach any `tol` may stop above it; its certificate says how far.

{overview}
{sections}"""


def format_page() -> str:
    formats = table(
        ("format", "`Content-Type`", "file names", "read options"),
        [
            (
                one.name,
                f"`{one.media_type}`",
                ", ".join(f"`{suffix}`" for suffix in one.suffixes),
                ", ".join(f"`{option}`" for option in one.options),
            )
            for one in file_formats().values()
        ],
    )
    defaults = table(
        ("option", "default"),
        [
            (f"`{option.name}`", f"`{option.default}`")
            for option in fields(ReadOptions)
            if option.default is not None and isinstance(option.default, str | int | tuple) and option.default != ()
        ],
    )
    exports = table(
        ("format", "media type", "suffix", "largest model, in weights", "can be imported"),
        [
            (
                f"`{one.name}`",
                f"`{one.media_type}`",
                f"`.{one.suffix}`",
                f"{one.max_weights:,}",
                "yes" if one.read else "no",
            )
            for one in export_formats().values()
        ],
    )
    suffixes = " and ".join(f"`{suffix}`" for suffix in ENCODING_SUFFIXES)
    return f"""# File formats

## Datasets

`POST /v1/datasets` takes these formats. The client finds the format by the file's name; a compressed file also ends in
{suffixes}. The read options are query parameters; [Datasets](datasets.md) explains them.

{formats}
Defaults of the read options that have one:

{defaults}
## Models

`GET /v1/models/{{ref}}/export?format=…` writes these formats; [Models](models.md#exports) says what is in each.
`POST /v1/models/import` reads those that can be imported.

{exports}"""


def _solver_section(name: str, info: dict[str, Any]) -> str:
    options = table(
        ("option", "type", "default", "allowed", "meaning"),
        [
            (
                f"`{option}`",
                about["type"],
                f"`{_spelled(about['default'])}`",
                _range(about),
                sentence(about["description"]),
            )
            for option, about in info["options"].items()
        ],
    )
    return f"""## {name}

{sentence(info["notes"])} {sentence(info["paper"])}

{options or "It has no options." + chr(10)}"""


def _range(about: dict[str, Any]) -> str:
    if about["choices"]:
        return ", ".join(f"`{choice}`" for choice in about["choices"])
    low, high = about["minimum"], about["maximum"]
    ends = [f"at least {low:g}" if low is not None else "", f"at most {high:g}" if high is not None else ""]
    return ", ".join(end for end in ends if end)


def _spelled(value: object) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _default(field: Any) -> str:
    if field.default_factory is not None:
        return "from the machine"
    if field.default is PydanticUndefined:
        return "none"
    value = field.default
    if isinstance(value, bool):
        return f"`{_spelled(value)}`"
    if isinstance(value, int) and value >= MIB and value % MIB == 0:
        size = f"{value // GIB} GiB" if value % GIB == 0 else f"{value // MIB} MiB"
        return f"`{value}` ({size})"
    if isinstance(value, float) and value.is_integer():
        return f"`{int(value)}`"
    return f"`{value}`" if str(value) else "empty"


def _limits(metadata: list[Any]) -> str:
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    found = [
        f"{word} {getattr(limit, name):g}" for limit in metadata for name, word in words.items() if hasattr(limit, name)
    ]
    return ", ".join(found)
