"""The client's commands (`upload`, `train`, `jobs ls`, ...) as commands of `hyperplane`.

They are defined once, in `hyperplane.cli`. This module builds typer functions with the same parameters, so that help,
completion and the reference page include them. The commands start a temporary service if none answers. Those of `local`
need no service.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from hyperplane.cli import COMMON, VERBS, Embedded, Parameter, Verb, parameters_of, run

from app.admin.local_verbs import LOCAL_VERBS
from app.config import Settings

__all__ = ["add_verbs"]

PROGRAM = "hyperplane"


def add_verbs(main: typer.Typer, read_settings: Callable[[], Settings]) -> None:
    """Add every verb of the client to `main`. The verbs use the service that runs with these settings."""

    @contextmanager
    def embedded() -> Iterator[str]:
        """Yield the URL of the service on this machine. If none answers, run one until the command ends."""
        from app.runtime.embedded import reachable_service

        settings = read_settings()
        with reachable_service(settings, settings.data_dir, lambda text: typer.echo(text, err=True)) as url:
            yield url

    groups: dict[str, typer.Typer] = {}
    for verb in [*VERBS, *LOCAL_VERBS]:
        where = main
        if len(verb.words) > 1:
            name = verb.words[0]
            if name not in groups:
                about = "Train and predict without a server." if verb in LOCAL_VERBS else f"Work with {name}."
                groups[name] = typer.Typer(no_args_is_help=True, help=about)
                main.add_typer(groups[name], name=name)
            where = groups[name]
        where.command(verb.words[-1], help=verb.help)(_function(verb, embedded))


def _function(verb: Verb, embedded: Embedded) -> Callable[..., None]:
    """Build the function for typer. Its signature has the verb's parameters, declared as typer options and
    arguments."""
    common = [one for one in COMMON if one.name == "output"] if verb in LOCAL_VERBS else COMMON

    def command(**values: Any) -> None:
        unused = {one.name: None for one in COMMON}
        raise typer.Exit(run(verb, unused | values, PROGRAM, embedded))

    parameters = [*parameters_of(verb), *common]
    command.__signature__ = inspect.Signature([_declared(one) for one in parameters])  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: _declared(one).annotation for one in parameters}
    return command


def _declared(parameter: Parameter) -> inspect.Parameter:
    kind: Any = list[str] if parameter.kind is list else parameter.kind
    if parameter.required:
        annotation: Any = Annotated[kind, typer.Argument(help=parameter.option.help)]
        default: Any = inspect.Parameter.empty
    else:
        if parameter.option.choices:
            kind = Literal[parameter.option.choices]
        optional = kind if parameter.kind is bool else kind | None
        declared = typer.Option(*parameter.flags, help=parameter.option.help, envvar=parameter.option.variable)
        annotation = Annotated[optional, declared]
        default = parameter.default
    return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
