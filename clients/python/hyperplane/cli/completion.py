"""Completion scripts for bash, zsh and fish, made from the commands: `hyperplane-client completion bash`."""

from hyperplane.cli.options import COMMON, Verb, parameters_of

__all__ = ["SHELLS", "completion_script"]

SHELLS = ("bash", "zsh", "fish")
BASH = """\
_{name}() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" words="${{COMP_WORDS[*]:1:COMP_CWORD-1}}" found=""
    case "$words" in
{cases}
    esac
    if [[ -z "$found" || ( "$current" != -* && "$found" == --* ) ]]; then
        COMPREPLY=( $(compgen -f -- "$current") )
    else
        COMPREPLY=( $(compgen -W "$found" -- "$current") )
    fi
}}
complete -o filenames -F _{name} {program}"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def completion_script(program: str, verbs: list[Verb], shell: str) -> str:
    """Return the script of a shell."""
    if shell == "fish":
        return "\n".join(_fish(program, verbs))
    script = BASH.format(name=program.replace("-", "_"), program=program, cases=_cases(verbs))
    return ZSH + script if shell == "zsh" else script


def _flags(verb: Verb) -> str:
    parameters = [*(one for one in parameters_of(verb) if not one.required), *COMMON]
    return " ".join(flag for parameter in parameters for flag in parameter.flags if flag.startswith("--"))


def _cases(verbs: list[Verb]) -> str:
    """Write the alternatives: the first words, the words of groups, then the flags of each command."""
    firsts = " ".join(dict.fromkeys(verb.words[0] for verb in verbs))
    lines = [f'        "") found="{firsts}" ;;']
    groups: dict[str, list[str]] = {}
    for verb in verbs:
        if len(verb.words) > 1:
            groups.setdefault(verb.words[0], []).append(verb.words[1])
    lines += [f'        "{group}") found="{" ".join(names)}" ;;' for group, names in groups.items()]
    lines += [f'        "{" ".join(verb.words)}"*) found="{_flags(verb)}" ;;' for verb in verbs]
    return "\n".join(lines)


def _fish(program: str, verbs: list[Verb]) -> list[str]:
    firsts = dict.fromkeys(verb.words[0] for verb in verbs)
    lines = [f"complete -c {program} -n __fish_use_subcommand -a {first}" for first in firsts]
    for verb in verbs:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in verb.words)
        if len(verb.words) > 1:
            group = f"__fish_seen_subcommand_from {verb.words[0]}"
            lines.append(f"complete -c {program} -n '{group}' -a {verb.words[1]}")
        lines += [f"complete -c {program} -n '{seen}' -l {flag[2:]}" for flag in _flags(verb).split()]
    return lines
