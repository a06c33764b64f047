"""The entry point: selects the verb, turns errors into one clear message and an exit code."""

import argparse
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from changeling import __version__
from changeling.cli.process import announce_spark, end_quickly, interrupt_once, start_quickly
from changeling.cli.verbs import NAMES, declare, listed
from changeling.model.errors import ChangelingError, UsageError, nearest
from changeling.model.extras import naming_extras
from changeling.model.printable import printable, printable_lines

_EXIT_CODES = """\
Exit codes: 0 done, 1 failed, 2 wrong call, 3 done but some records rejected,
4 refused because something would be lost, 5 verify found differences."""


class _Parser(argparse.ArgumentParser):
    """Prints the right call after a wrong one, and exits with 2."""

    def error(self, message: str) -> NoReturn:
        usage = textwrap.indent(self.format_usage().rstrip(), "  ")
        raise UsageError(f"{message}\n{usage}\n  More: {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Proposes the nearest of the values that an argument may have."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"there is no {value!r}; {nearest(value, map(str, action.choices))}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Exit codes: 0 done, 1 failed, 2 wrong call, 3 some records rejected (or part of a removed pipeline left), 4 something would
    be lost, 5 replicas differ from their database.
    """
    if arguments is not None:
        return _done(list(arguments))
    interrupt_once()
    code = _done(sys.argv[1:])
    end_quickly()
    return code


def _done(arguments: list[str]) -> int:
    try:
        start_quickly()
        parsed = _parse(arguments)
        if parsed.verb != "run":
            announce_spark()
        with naming_extras():
            code: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe: Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ChangelingError as error:
        print(f"changeling: {printable_lines(str(error))}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        message = f"{printable(str(error.filename or ''))}: {error.strerror or error}".removeprefix(": ")
        print(f"changeling: {printable_lines(message)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("changeling: stopped", file=sys.stderr)
        return 130
    return code


def _check_flags(arguments: list[str], verb: argparse.ArgumentParser) -> None:
    """Suggests the flag or the action closest to a mistyped one, before argparse complains about what is missing."""
    known = verb._option_string_actions
    actions = None if verb._subparsers is None else verb._subparsers._group_actions[0].choices
    if isinstance(actions, Mapping) and arguments and not arguments[0].startswith("-"):
        if arguments[0] not in actions:
            raise UsageError(f"there is no action {arguments[0]!r}; {nearest(arguments[0], actions)}")
        _check_flags(arguments[1:], actions[arguments[0]])
        return
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for argument in arguments[:end]:
        name = argument.partition("=")[0]
        # A text with blanks is no flag: a statement may begin with a comment.
        if name.startswith("--") and name not in known and len(name.split()) == 1:
            raise UsageError(
                f"there is no flag {name!r}; {nearest(name, [flag for flag in known if flag.startswith('--')])}"
            )


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="changeling",
        usage="changeling [-h] [--version] VERB ...",
        description="Every change-data-capture dialect, one change log.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"changeling {__version__}")
    verbs = parser.add_subparsers(
        dest="verb", metavar="VERB", prog="changeling", parser_class=_Parser, help=argparse.SUPPRESS
    )
    parser.epilog = "\n".join([*listed(), "changeling VERB --help says more of each.", _EXIT_CODES])
    place, verb = next(((place, word) for place, word in enumerate(arguments) if not word.startswith("-")), (0, None))
    if verb is not None:
        if verb not in NAMES:
            raise UsageError(f"there is no verb {verb!r}; {nearest(verb, NAMES)}")
        declare(NAMES if verb == "completion" else (verb,), verbs)
        _check_flags(arguments[place + 1 :], verbs.choices[verb])
    parsed = parser.parse_args(arguments)
    if parsed.verb is None:
        parser.print_help()
        raise SystemExit(2)
    return parsed
