"""The command `hyperplane-client`. The service's own command `hyperplane` has the same verbs and runs them by `run`."""

import os
import sys
from typing import Annotated, Any

import hyperplane
from hyperplane.cli.completion import SHELLS, completion_script
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
REFUSED, USAGE, NO_CONNECTION, TIMED_OUT, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 4, 130, 141
"""Exit codes: the service refused the request or the job failed; a wrong command line; no answer; the work was not done
within --timeout; Ctrl-C; the reader of the output has closed it, as `head` does."""


def completion(shell: Shell, name: Annotated[str, Option(f"Your shell: {', '.join(SHELLS)}.", choices=SHELLS)]) -> int:
    """Print a completion script for your shell, for example for `eval "$(hyperplane-client completion bash)"`."""
    print(completion_script(PROGRAM, [*VERBS, COMPLETION], name))
    return 0


COMPLETION = Verb(("completion",), completion)
"""Only of this program: the service's own command completes by typer (`--install-completion`)."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command line and exit with its code."""
    values = vars(build_parser(PROGRAM, [*VERBS, COMPLETION]).parse_args(arguments))
    sys.exit(run(values.pop("verb"), values, PROGRAM))


def run(verb: Verb, values: dict[str, Any], program: str, embedded: Embedded | None = None) -> int:
    """Run a verb with the values of its parameters and of the common ones. Returns the exit code."""
    common = {parameter.name: values.pop(parameter.name) for parameter in COMMON}
    try:
        with Shell(**common, program=program, embedded=embedded) as shell:
            code = verb.run(shell, **values)
            sys.stdout.flush()
            return code
    except UsageError as error:
        return _failed(program, str(error), USAGE)
    except hyperplane.ApiError as error:
        lines = [str(error), *(f"  {_place(fault)}{fault.get('detail')}" for fault in error.errors[:10])]
        if error.request_id:
            lines.append(f"  request {error.request_id}, code {error.code}")
        return _failed(program, "\n".join(lines), REFUSED)
    except hyperplane.ConnectionFailed as error:
        return _failed(program, f"{error}\nIs the service running? Name another one with --url.", NO_CONNECTION)
    except hyperplane.WaitTimeout as error:
        return _failed(program, str(error), TIMED_OUT)
    except BrokenPipeError:
        # The interpreter writes the rest of its buffer at the end, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
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
