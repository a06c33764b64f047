"""`changeling completion`: a script that lets a shell complete verbs, flags and formats."""

import argparse
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from changeling.formats import registry

_FORMATS = ("format", "target")
"""Arguments that are the name of a format."""
_PATHS = ("FILE", "PATH", "PIPELINE", "DIR")
"""What the help calls arguments that are files or folders."""
_HOWTO = {
    "bash": "source <(changeling completion bash)   # in ~/.bashrc",
    "zsh": "changeling completion zsh > ~/.zfunc/_changeling   # a folder of $fpath",
    "fish": "changeling completion fish > ~/.config/fish/completions/changeling.fish",
}


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser(
        "completion",
        description="Prints a script that lets a shell complete verbs, flags and formats.",
        epilog="\n".join(["how to use it:", *(f"  {line}" for line in _HOWTO.values())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=sorted(_HOWTO), help="which shell")
    parser.set_defaults(run=functools.partial(run, verbs=verbs))


def run(parsed: argparse.Namespace, verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> int:
    """Prints the script of a shell, made from the verbs as they are declared."""
    calls = [Call((), {"--help": None, "--version": None}, {}, tuple(verbs.choices)), *_calls(verbs.choices, ())]
    print(f"# {_HOWTO[parsed.shell]}" if parsed.shell != "zsh" else f"#compdef changeling\n# {_HOWTO['zsh']}")
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[parsed.shell](calls))
    return 0


class Other(Enum):
    """What an argument may be, where the words are not known."""

    FILES = auto()
    ANYTHING = auto()


Words: TypeAlias = tuple[str, ...] | Other


@dataclass(frozen=True)
class Call:
    """What may follow the words of a call, such as `feed create`."""

    words: tuple[str, ...]
    flags: Mapping[str, Words | None]
    """Each flag with what it takes: None where it takes nothing."""
    helps: Mapping[str, str]
    arguments: Words


def _calls(parsers: Mapping[str, argparse.ArgumentParser], words: tuple[str, ...]) -> Iterator[Call]:
    for name, parser in parsers.items():
        flags: dict[str, Words | None] = {}
        helps: dict[str, str] = {}
        arguments: Words = Other.ANYTHING
        for action in parser._actions:
            for flag in action.option_strings:
                flags[flag] = None if action.nargs == 0 else _words(action)
                helps[flag] = action.help or ""
            if not action.option_strings and arguments is Other.ANYTHING:
                arguments = _words(action)
            if isinstance(action, argparse._SubParsersAction):
                yield from _calls(action.choices, (*words, name))
        yield Call((*words, name), flags, helps, arguments)


def _words(action: argparse.Action) -> Words:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    if action.dest in _FORMATS:
        return tuple(registry.names())
    return Other.FILES if action.metavar in _PATHS else Other.ANYTHING


_BASH = """\
_changeling() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} call="" word
    local -a given=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    COMPREPLY=()
%s
}
_changeling_words() { compopt +o default; COMPREPLY=($(compgen -W "$*" -- "$current")); }
_changeling_files() { compopt -o default; }
_changeling_anything() { compopt +o default; }
complete -o default -F _changeling changeling"""

_ZSH = """\
_changeling() {
    local current=$words[CURRENT] previous=$words[CURRENT-1] call="" word
    local -a given=("${(@)words[2,CURRENT-1]}")
%s
}
_changeling_words() { compadd -- "$@" }
_changeling_files() { _files }
_changeling_anything() { return 1 }
if [ "$funcstack[1]" = _changeling ]; then _changeling "$@"; else compdef _changeling changeling; fi"""

_BODY = """\
    for word in "${given[@]}"; do
        case "$call $word" in
            %s) call="${call:+$call }$word" ;;
        esac
    done
    case "$call:$previous" in
%s
    esac
    case "$call:$current" in
%s
    esac"""


def _bash(calls: list[Call]) -> str:
    return _BASH % _body(calls)


def _zsh(calls: list[Call]) -> str:
    return _ZSH % _body(calls)


def _body(calls: list[Call]) -> str:
    """The part that bash and zsh understand alike: which call it is, then what its last word can become."""
    begun = "|".join(f'"{" ".join(call.words[:-1])} {call.words[-1]}"' for call in calls if call.words)
    values, others = [], []
    for call in calls:
        name = " ".join(call.words)
        for flag, taken in call.flags.items():
            if taken is not None:
                values.append(f'        "{name}:{flag}") {_command(taken)}; return ;;')
        others.append(f'        "{name}:-"*) {_command(tuple(call.flags))} ;;')
        others.append(f'        "{name}:"*) {_command(call.arguments)} ;;')
    return _BODY % (begun, "\n".join(values), "\n".join(others))


def _command(words: Words) -> str:
    if isinstance(words, Other):
        return "_changeling_files" if words is Other.FILES else "_changeling_anything"
    return f"_changeling_words {' '.join(words)}"


_FISH = """\
function __changeling_call
    set -l call
    for word in (commandline -opc)[2..]
        if contains -- (string join -- ' ' $call $word) %s
            set -a call $word
        end
    end
    test "$call" = "$argv"
end
complete -c changeling -f"""


def _fish(calls: list[Call]) -> str:
    lines = [_FISH % " ".join(_quoted(" ".join(call.words)) for call in calls if call.words)]
    for call in calls:
        start = f"complete -c changeling -n {_quoted(' '.join(['__changeling_call', *call.words]))}"
        if not isinstance(call.arguments, Other):
            lines.append(f"{start} -a {_quoted(' '.join(call.arguments))}")
        elif call.arguments is Other.FILES:
            lines.append(f"{start} -F")
        for flag, taken in call.flags.items():
            described = f" -d {_quoted(call.helps[flag])}" if call.helps.get(flag) else ""
            spelled = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            lines.append(f"{start} {spelled}{_fish_value(taken)}{described}")
    return "\n".join(lines)


def _fish_value(taken: Words | None) -> str:
    if taken is None:
        return ""
    if isinstance(taken, Other):
        return " -r -F" if taken is Other.FILES else " -x"
    return f" -x -a {_quoted(' '.join(taken))}"


def _quoted(text: str) -> str:
    """In single quotes, as fish reads them."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
