"""Arguments that verbs share."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from changeling.model.errors import UsageError

if TYPE_CHECKING:
    from changeling.pipelines.pipeline import Pipeline


OF_THE_FORMAT = "option of the format; `changeling formats NAME` lists them"


def whole_number(text: str) -> int:
    """The number of an argument that counts something."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def settings(pairs: Iterable[str], flag: str) -> dict[str, Any]:
    """NAME=VALUE pairs as a dictionary."""
    given = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} {pair}: write {flag} NAME=VALUE")
        if name in given:
            raise UsageError(f"{flag} {name} is given twice")
        given[name] = value
    return given


def add_pipeline(parser: argparse.ArgumentParser) -> None:
    """--pipeline FILE."""
    parser.add_argument("--pipeline", metavar="FILE", help="the pipeline (default: the one *.yaml here)")


def add_pipeline_file(parser: argparse.ArgumentParser) -> None:
    """[PIPELINE], or --pipeline FILE."""
    parser.add_argument("file", nargs="?", metavar="PIPELINE", help="the pipeline (default: the one *.yaml here)")
    parser.add_argument("--pipeline", metavar="FILE", help="the same, as other verbs take it")


def add_source(parser: argparse.ArgumentParser) -> None:
    """--source NAME."""
    parser.add_argument("--source", metavar="NAME", help="the source, where several have a table of that name")


def pipeline_of(path: str | None) -> "Pipeline":
    """The named pipeline, or the only one in this folder."""
    from changeling.pipelines.loading import find
    from changeling.pipelines.pipeline import Pipeline

    return Pipeline.load(find(path))
