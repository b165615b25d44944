"""Commands as functions: what their parameters mean on a command line, and the argparse parser made from them.

A parameter of a verb is annotated with `Annotated[type, Option(help)]`. Without a default it is an argument, else an
option. `hyperplane-client` reads this by argparse; the service's own `hyperplane` reads the same by typer.
"""

import argparse
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from hyperplane._shared.version import VERSION

__all__ = ["COMMON", "Option", "Parameter", "Verb", "build_parser", "parameters_of"]


@dataclass(frozen=True)
class Option:
    """The meaning of a parameter, further spellings of its flag, and its choices."""

    help: str
    flags: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    variable: str | None = None


@dataclass(frozen=True)
class Parameter:
    """A parameter of a verb. `kind` is str, int, float, bool, or list for an option that can be repeated."""

    name: str
    kind: type
    option: Option
    required: bool
    default: Any

    @property
    def flags(self) -> tuple[str, ...]:
        """The spellings of the flag, of an option."""
        return (*self.option.flags, f"--{self.name.rstrip('_').replace('_', '-')}")


@dataclass(frozen=True)
class Verb:
    """A command: its words (`jobs`, `ls`) and its function, whose first parameter is the `Shell`."""

    words: tuple[str, ...]
    run: Callable[..., int]

    @property
    def help(self) -> str:
        """The docstring of the function."""
        return inspect.cleandoc(self.run.__doc__ or "")


COMMON = [
    Parameter("url", str, Option("URL of the service.", variable="HYPERPLANE_URL"), False, None),
    Parameter("api_key", str, Option("API key of the service.", variable="HYPERPLANE_API_KEY"), False, None),
    Parameter("output", str, Option("Format of what is printed.", ("-o",), ("table", "json")), False, "table"),
]
"""Options of every verb. The `Shell` is made of them."""


def parameters_of(verb: Verb) -> Iterator[Parameter]:
    """Read the parameters of a verb from its signature, without the shell."""
    for parameter in list(inspect.signature(verb.run, eval_str=True).parameters.values())[1:]:
        hint = parameter.annotation
        assert get_origin(hint) is Annotated, f"{verb.words}: {parameter.name} has no Option"
        base, option = get_args(hint)[:2]
        required = parameter.default is inspect.Parameter.empty
        yield Parameter(parameter.name, _kind(base), option, required, None if required else parameter.default)


def build_parser(program: str, verbs: list[Verb]) -> argparse.ArgumentParser:
    """Build the parser. A parsed command has its function in `verb`."""
    parser = argparse.ArgumentParser(prog=program, description="Linear support vector machines as a service.")
    parser.add_argument("--version", action="version", version=f"{program} {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    groups: dict[str, Any] = {}
    for verb in verbs:
        where = commands
        if len(verb.words) > 1:
            name = verb.words[0]
            if name not in groups:
                group = commands.add_parser(name, help=f"Work with {name}.")
                groups[name] = group.add_subparsers(required=True, metavar="COMMAND")
            where = groups[name]
        command = where.add_parser(verb.words[-1], help=verb.help.partition("\n")[0], description=verb.help)
        command.set_defaults(verb=verb)
        for parameter in (*parameters_of(verb), *COMMON):
            _add(command, parameter)
    return parser


def _add(command: argparse.ArgumentParser, parameter: Parameter) -> None:
    text = parameter.option.help.replace("%", "%%")
    if parameter.required:
        command.add_argument(parameter.name, type=parameter.kind, choices=parameter.option.choices or None, help=text)
        return
    default = os.environ.get(parameter.option.variable or "", parameter.default)
    if parameter.kind is bool:
        command.add_argument(*parameter.flags, dest=parameter.name, action="store_true", help=text)
    elif parameter.kind is list:
        command.add_argument(*parameter.flags, dest=parameter.name, action="append", default=[], help=text)
    else:
        choices = parameter.option.choices or None
        command.add_argument(
            *parameter.flags, dest=parameter.name, type=parameter.kind, default=default, choices=choices, help=text
        )


def _kind(hint: Any) -> type:
    """Return the plain type of an annotation such as `str | None` or `list[str]`."""
    if get_origin(hint) is list:
        return list
    alternatives = [one for one in get_args(hint) if one is not type(None)]
    return _kind(alternatives[0]) if alternatives else hint
