"""What the verbs of a pipeline share: which file it is."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from changeling.pipelines.pipeline import Pipeline


def add_pipeline(parser: argparse.ArgumentParser) -> None:
    """--pipeline FILE."""
    parser.add_argument("--pipeline", metavar="FILE", help="the pipeline (default: the one *.yaml here)")


def add_source(parser: argparse.ArgumentParser) -> None:
    """--source NAME."""
    parser.add_argument("--source", metavar="NAME", help="of which source, where several have a table of that name")


def pipeline_of(path: str | None) -> "Pipeline":
    """The pipeline that is named, or the only one in this folder."""
    from changeling.pipelines.loading import find
    from changeling.pipelines.pipeline import Pipeline

    return Pipeline.load(find(path))
