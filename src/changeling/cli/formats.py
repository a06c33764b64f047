"""`changeling formats`: which dialects there are; `changeling formats NAME`: what one can carry, and its options."""

import argparse
import json
import textwrap
from collections.abc import Iterator

import msgspec

from changeling.cli.verbs import WIDTH, definitions
from changeling.formats import registry
from changeling.formats.capabilities import FEATURES, LABELS
from changeling.formats.format import Format
from changeling.formats.options import ReadOptions, WriteOptions


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("formats", description=__doc__)
    parser.add_argument("format", nargs="?", metavar="NAME", help="describe this one: positions, features, options")
    parser.add_argument("--json", action="store_true", help="lines of JSON")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints the list, one format in full, or one JSON object a format."""
    forms = [registry.get(name) for name in ([parsed.format] if parsed.format else registry.names())]
    if parsed.json:
        for form in forms:
            print(json.dumps(_entry(form)))
    elif parsed.format:
        print("\n".join(_described(forms[0])))
    else:
        print("\n".join(definitions(((form.name, form.summary) for form in forms), "")))
        print("\nMore on one of them: changeling formats NAME")
    return 0


def _described(form: Format) -> Iterator[str]:
    yield form.name
    yield from textwrap.wrap(form.summary, WIDTH)
    lacking = [name for name in FEATURES if name not in form.carries]
    said = {
        "position": form.position,
        "names tables": "yes" if form.names_table else "no: --table, or a topic, does",
        "other names": ", ".join(alias for alias, name in registry.ALIASES.items() if name == form.name),
        "feed modes": ", ".join(form.feed_modes),
    }
    yield ""
    yield from definitions(((name, text) for name, text in said.items() if text), "")
    sections = {
        "carries": [(name, FEATURES[name]) for name in FEATURES if name in form.carries],
        "cannot carry (--drop allows the loss)": [(name, FEATURES[name]) for name in lacking if name not in LABELS],
        "writes as another operation": [(name, FEATURES[name]) for name in lacking if name in LABELS],
        "options for reading (-o NAME=VALUE)": list(_options(form.read_options, ReadOptions)),
        "options for writing (--out-option NAME=VALUE)": list(_options(form.write_options, WriteOptions)),
    }
    for title, entries in sections.items():
        if entries:
            yield from ("", title)
            yield from definitions(entries, "  ")


def _options(kind: type[msgspec.Struct], common: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    """The options that a format has of its own, with what its author says about each."""
    from changeling.model.member_notes import member_notes

    shared = {field.name for field in msgspec.structs.fields(common)}
    notes = member_notes(kind)
    for field in msgspec.structs.fields(kind):
        if field.name not in shared:
            values = _choices(msgspec.inspect.type_info(field.type))
            details = [f"one of {', '.join(values)}"] if values else []
            details += [f"default {_spelled(field.default)}"] if field.default is not None else []
            yield (
                field.name,
                " ".join([notes.get(field.name, ""), f"({'; '.join(details)})" if details else ""]).strip(),
            )


def _choices(kind: msgspec.inspect.Type) -> list[str]:
    if isinstance(kind, msgspec.inspect.UnionType):
        return [value for one in kind.types for value in _choices(one)]
    return [str(value) for value in kind.values] if isinstance(kind, msgspec.inspect.LiteralType) else []


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else json.dumps(value) if value == "" else str(value)


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
