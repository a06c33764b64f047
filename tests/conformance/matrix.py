"""The table of what each format loses on its way into each other, made by trying: `python -m tests.conformance.matrix`."""

from pathlib import Path

import changeling
from changeling.formats import registry
from tests.conformance.cases import CASES
from tests.conformance.test_conformance import decoded, held

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
_HEAD = """# Each format into each other

What must be dropped when changes of the format on the left are written in the format on top: every change of the conformance
suite that the left one can hold was tried. An empty cell means that all of them come back exactly. A change that has none of
these things converts without `--drop`. `changeling formats` tells what the words mean; this page is made by
`.venv/bin/python -m tests.conformance.matrix`, and a test holds it to the truth.

"""


def lost(source: str, target: str) -> list[str]:
    """The features that some change of the suite, read from `source`, has and `target` refuses."""
    found: set[str] = set()
    for change in CASES.values():
        records = held(change, source)
        if records is None:
            continue
        native = decoded(records, source, change)
        drop: frozenset[str] = frozenset()
        while True:
            _, refused = changeling.encode(native, target, drop=drop)
            more = {feature for feature in refused["feature"].to_pylist() if feature is not None} - drop
            if not more:
                break
            drop |= more
        found |= drop
    return sorted(found)


def page() -> str:
    """The whole page."""
    names = registry.names()
    rows = [f"| from \\ to | {' | '.join(names)} |", f"|---{'|---' * len(names)}|"]
    for source in names:
        cells = [", ".join(lost(source, target)) for target in names]
        rows.append(f"| **{source}** | {' | '.join(cells)} |")
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
