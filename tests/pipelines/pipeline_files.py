"""Pipeline files for tests: a start to build on, and what loading one gives or says."""

from pathlib import Path

import pytest

from changeling.model.errors import UsageError
from changeling.pipelines.definition import PostgresSource, RecordSource
from changeling.pipelines.loading import LoadedPipeline, load

HEAD = """\
name: shop
warehouse: lake
sources:
"""
USERS = HEAD + "  - {name: drop, type: files, path: in, format: ydb-json, table: users, key: [id]}\n"
"""A whole pipeline of four lines."""


def loaded(folder: Path, text: str | bytes) -> LoadedPipeline:
    """The pipeline of a file `shop.yaml` with this text."""
    file = folder / "shop.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(file)


def refused(folder: Path, text: str | bytes) -> str:
    """What loading it says, without the folder."""
    with pytest.raises(UsageError) as caught:
        loaded(folder, text)
    return str(caught.value).removeprefix(f"{folder}/")


def source(found: LoadedPipeline, name: str = "drop") -> RecordSource:
    """The source of that name."""
    one = next(one for one in found.definition.sources if one.name == name)
    assert not isinstance(one, PostgresSource)
    return one
