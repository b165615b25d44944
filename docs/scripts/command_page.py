"""The page of the command line, from the commands' own help."""

from typing import Any

import typer

from app.cli import main
from docs.scripts.markdown import sentence, table

__all__ = ["command_page"]


def command_page() -> str:
    group = typer.main.get_command(main)
    sections = "\n".join(_sections(group, "hyperplane"))
    return f"""# Command line

`hyperplane COMMAND --help` prints the same. Commands read the settings of the environment
([Settings](settings.md)); a flag overrides its variable.

{sections}"""


def _sections(group: Any, path: str) -> list[str]:
    found = []
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found += _sections(command, f"{path} {name}")
        else:
            found.append(_section(command, f"{path} {name}"))
    return found


def _section(command: Any, path: str) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    usage = " ".join([path, *(argument.name.upper() for argument in arguments)])
    rows = [(f"`{argument.name.upper()}`", sentence(argument.help or "")) for argument in arguments]
    rows += [
        (f"`{'`, `'.join(option.opts)}`", sentence(option.help or "") + _variable(option))
        for option in options
        if option.name != "help"
    ]
    return f"## {path}\n\n`{usage}`\n\n{_paragraphs(command.help or '')}\n\n{table(('parameter', 'meaning'), rows)}"


def _variable(option: Any) -> str:
    return f" Also from `{option.envvar}`." if option.envvar else ""


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
