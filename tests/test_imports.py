"""Holds the shape of the source tree: import direction, file length, names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "src" / "changeling"

# Lowest first. "api" stands for the modules directly in the package.
ROOMS = [
    "model",
    "envelope",
    "formats",
    "files",
    "postgres",
    "spark",
    "iceberg",
    "sources",
    "log",
    "replicas",
    "targets",
    "feeds",
    "datasource",
    "pipelines",
    "api",
    "conformance",
    "cli",
]
FACES = {"spark/__init__.py": "api"}
"""What users import by the name of a room, though its names come from rooms above: they are loaded when they are asked for."""
WITHOUT_SPARK = {"model", "envelope", "formats", "postgres"}
SPARK_ONLY_IN_FUNCTIONS = {"cli"}

MAX_LINES = 350
MAX_LINES_OF_A_DIALECT = 500
"""What a dialect says is read together: it is a file, or a few large ones."""
VAGUE_NAMES = {"utils", "common", "helpers", "misc"}
NAMED_FOLDERS = ["src", "tests", "bench", "demo", "docs"]


def python_files(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def room_of_name(name: str) -> str:
    """The room of a dotted name below the package, as in "formats.json" or "" for the package itself."""
    first = name.split(".")[0]
    if first == "__main__":
        return "cli"
    return first if first in ROOMS else "api"


def room_of_file(package: Path, file: Path) -> str:
    if face := FACES.get(file.relative_to(package).as_posix()):
        return face
    inside = file.relative_to(package).with_suffix("")
    return inside.parts[0] if len(inside.parts) > 1 else room_of_name(inside.name)


def imported_names(package: Path, file: Path, node: ast.Import | ast.ImportFrom) -> list[str]:
    """Absolute dotted names an import statement may load, with relative ones resolved."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        folder = [package.name, *file.parent.relative_to(package).parts]
        kept = folder[: len(folder) - node.level + 1]
        base = ".".join([*kept, *([base] if base else [])])
    if base == package.name:
        # "from changeling import log" loads a room, so the name after import decides.
        return [f"{base}.{alias.name}" for alias in node.names]
    return [base]


def is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def run_on_import(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that is executed when the module is loaded: not function bodies, not TYPE_CHECKING blocks."""
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If) and is_type_checking(node.test):
        children = list(node.orelse)
    for child in children:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        yield child
        yield from run_on_import(child)


def violations(package: Path) -> list[str]:
    found = []
    for file in python_files(package):
        room = room_of_file(package, file)
        where = file.relative_to(package).as_posix()
        if room not in ROOMS:
            found.append(f"{where}: {room} is not a known room; give it a place in ROOMS")
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=where)
        on_import = {id(node) for node in run_on_import(tree)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for name in imported_names(package, file, node):
                top, _, rest = name.partition(".")
                if top == package.name and ROOMS.index(room_of_name(rest)) > ROOMS.index(room):
                    found.append(f"{where}:{node.lineno}: {room} imports {name}, which lies above it")
                if top != "pyspark":
                    continue
                if room in WITHOUT_SPARK:
                    found.append(f"{where}:{node.lineno}: {room} must not import {name}")
                elif room in SPARK_ONLY_IN_FUNCTIONS and id(node) in on_import:
                    found.append(f"{where}:{node.lineno}: {room} must import {name} inside a function")
    return found


def has_vague_name(path: Path) -> bool:
    return path.stem in VAGUE_NAMES or path.stem.endswith("_v2")


def test_imports_point_down_and_keep_spark_out() -> None:
    assert violations(PACKAGE) == []


def test_no_source_file_is_too_long() -> None:
    lengths = {
        file.relative_to(PACKAGE).as_posix(): len(file.read_text(encoding="utf-8").splitlines())
        for file in python_files(PACKAGE)
    }
    too_long = {
        name: lines
        for name, lines in lengths.items()
        if lines > (MAX_LINES_OF_A_DIALECT if name.startswith("formats/") else MAX_LINES)
    }
    assert too_long == {}


def test_no_name_is_vague() -> None:
    paths = (path for folder in NAMED_FOLDERS for path in (REPOSITORY / folder).rglob("*"))
    assert [path.relative_to(REPOSITORY).as_posix() for path in paths if has_vague_name(path)] == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("model/change.py", "from changeling.formats import json"),
        ("model/change.py", "from changeling import log"),
        ("model/change.py", "from ..formats.json import read"),
        ("model/change.py", "import changeling"),
        ("model/change.py", "def f():\n    import pyspark"),
        ("formats/json.py", "from pyspark.sql import Row"),
        ("sources/kafka.py", "import changeling.log.writer"),
        ("pipelines/run.py", "from changeling.api import open_log"),
        ("api.py", "from changeling.cli import main"),
        ("cli/__init__.py", "from pyspark.sql import SparkSession"),
        ("cli.py", "try:\n    import pyspark\nexcept ImportError:\n    pass"),
        ("cupboard/thing.py", ""),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, file: str, source: str) -> None:
    assert len(violations(tree_with(tmp_path, file, source))) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("model/change.py", "from changeling.model import row\nfrom . import value"),
        ("formats/deep/json.py", "from ...model.change import Change\nfrom ..text import read"),
        ("spark/starting.py", "import pyspark"),
        ("spark/__init__.py", "from changeling.pipelines import loading"),
        ("log/writer.py", "from changeling import model, sources"),
        ("__init__.py", "from changeling.api import open_log"),
        ("__main__.py", "from changeling.cli import main"),
        ("cli/run.py", "def main():\n    from pyspark.sql import SparkSession"),
        ("cli/run.py", "if TYPE_CHECKING:\n    from pyspark.sql import SparkSession"),
    ],
)
def test_a_right_import_passes(tmp_path: Path, file: str, source: str) -> None:
    assert violations(tree_with(tmp_path, file, source)) == []


def test_an_empty_tree_passes(tmp_path: Path) -> None:
    assert violations(tmp_path / "changeling") == []


def tree_with(folder: Path, file: str, source: str) -> Path:
    package = folder / "changeling"
    path = package / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    return package
