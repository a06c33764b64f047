"""`changeling formats`: which dialects there are, and what each can carry."""

import argparse
import json

import msgspec

from changeling.formats import registry
from changeling.formats.capabilities import FEATURES, LABELS
from changeling.formats.format import Format


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("formats", help="list the dialects and what each can carry", description=__doc__)
    parser.add_argument("--json", action="store_true", help="lines of JSON")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints a table, or one JSON object a format."""
    forms = [registry.get(name) for name in registry.names()]
    if parsed.json:
        for form in forms:
            print(json.dumps(_entry(form)))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("format", no_wrap=True)
    for title in ("what it is", "position", "cannot carry", "writes as another operation"):
        table.add_column(title)
    for form in forms:
        lacking = [name for name in FEATURES if name not in form.carries]
        losses = ", ".join(name for name in lacking if name not in LABELS)
        table.add_row(
            form.name, form.summary, form.position, losses, ", ".join(name for name in lacking if name in LABELS)
        )
    Console(highlight=False).print(table)
    return 0


def _entry(form: Format) -> dict[str, object]:
    return {
        "name": form.name,
        "summary": form.summary,
        "reads": True,
        "writes": True,
        "position": form.position,
        "capabilities": [name for name in FEATURES if name in form.carries],
        "read_options": [field.name for field in msgspec.structs.fields(form.read_options)],
        "write_options": [field.name for field in msgspec.structs.fields(form.write_options)],
    }
