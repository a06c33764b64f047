"""The pages for Spark and Python are true: their reference is that of the code, and their examples print what they show."""

import contextlib
import io
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeling.cli.main import main
from tests.docs.python_reference import PAGE, page
from tests.docs.transcripts import examples

SPARK_PAGE = PAGE.with_name("spark.md")


def test_the_reference_is_that_of_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python -m tests.docs.python_reference"


@pytest.mark.usefixtures("capsys")
def test_examples_print_what_they_show(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    for name in (PAGE, SPARK_PAGE):
        names = {"spark": spark}
        # Below that sign is the reference.
        for code, shown in examples(name.read_text(encoding="utf-8").partition("<!--")[0]):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                # Spark's processes take relative paths from where Spark was started.
                exec(re.sub(r'"(in/|checkpoints/|changes")', rf'"{tmp_path}/\1', code), names)
            assert printed.getvalue().strip() == shown.strip(), code
