"""The command `hyperplane-client`. The service's own command `hyperplane` has the same verbs and runs them by `run`."""

import sys
from typing import Any

import hyperplane
from hyperplane.cli.completion import completion_script
from hyperplane.cli.options import COMMON, Option, Parameter, Verb, build_parser, parameters_of
from hyperplane.cli.shell import Embedded, Shell, UsageError
from hyperplane.cli.verbs import VERBS

__all__ = [
    "COMMON",
    "VERBS",
    "Embedded",
    "Option",
    "Parameter",
    "Shell",
    "UsageError",
    "Verb",
    "main",
    "parameters_of",
    "run",
]

PROGRAM = "hyperplane-client"
REFUSED, USAGE, NO_CONNECTION, INTERRUPTED = 1, 2, 3, 130
"""Exit codes: the service refused the request or the job failed; a wrong command line; no answer in time; Ctrl-C."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command line and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["completion"]:
        script = completion_script(PROGRAM, VERBS, given[1] if len(given) > 1 else "")
        sys.exit(USAGE if script is None else print(script))
    values = vars(build_parser(PROGRAM, VERBS).parse_args(given))
    sys.exit(run(values.pop("verb"), values, PROGRAM))


def run(verb: Verb, values: dict[str, Any], program: str, embedded: Embedded | None = None) -> int:
    """Run a verb with the values of its parameters and of the common ones. Returns the exit code."""
    common = {parameter.name: values.pop(parameter.name) for parameter in COMMON}
    try:
        with Shell(**common, program=program, embedded=embedded) as shell:
            return verb.run(shell, **values)
    except UsageError as error:
        return _failed(program, str(error), USAGE)
    except hyperplane.ApiError as error:
        lines = [str(error), *(f"  {_place(fault)}{fault.get('detail')}" for fault in error.errors[:10])]
        if error.request_id:
            lines.append(f"  request {error.request_id}, code {error.code}")
        return _failed(program, "\n".join(lines), REFUSED)
    except (hyperplane.ConnectionFailed, hyperplane.WaitTimeout) as error:
        return _failed(program, f"{error}\nIs the service running? Name another one with --url.", NO_CONNECTION)
    except (hyperplane.HyperplaneError, ValueError, OSError) as error:
        return _failed(program, str(error), REFUSED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _failed(program: str, text: str, code: int) -> int:
    print(f"{program}: {text}", file=sys.stderr)
    return code


def _place(fault: dict[str, Any]) -> str:
    parts = [f"{name} {fault[name]}" for name in ("field", "line", "column") if fault.get(name) is not None]
    return f"{', '.join(parts)}: " if parts else ""
