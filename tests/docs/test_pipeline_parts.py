"""Parts of pipeline files that pages show can be copied: completed with the rest of a file, each one loads."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from changeling.pipelines.loading import load
from tests.docs.test_printed_commands import PAGES, named

REST: dict[str, Any] = {
    "name": "shop",
    "warehouse": "./lake",
    "sources": [{"name": "pg", "type": "postgres", "url": "postgresql://shop", "tables": ["public.*"]}],
}
FEED = {"name": "orders", "table": "public.orders", "with": {"FORMAT": "arcion-json", "MODE": "NEW_AND_OLD_IMAGES"}}
OTHER_FILES = ("# prometheus.yml", "# broken.yaml")
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)\}")


def parts() -> list[Any]:
    found = ((page, block) for page in PAGES for block in _BLOCK.findall(page.read_text(encoding="utf-8")))
    return [
        pytest.param(block, id=f"{named(page)} {block.partition(chr(10))[0]}")
        for page, block in found
        if not block.startswith(OTHER_FILES)
    ]


def completed(part: Any) -> dict[str, Any]:
    """A whole file; a list is one of sources or of feeds."""
    if isinstance(part, list):
        return {**REST, "feeds" if "with" in part[0] else "sources": part}
    return {**REST, "feeds": [{**FEED, **part}]} if part.keys() == {"topic"} else {**REST, **part}


@pytest.mark.parametrize("block", parts())
def test_it_loads(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLE.findall(block):
        monkeypatch.setenv(name, "postgresql://shop" if "URL" in name else "kafka.example:9092")
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(completed(yaml.safe_load(block))))
    load(tmp_path / "shop.yaml")
