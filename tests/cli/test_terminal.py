"""What commands print on a terminal of 80 columns: nothing is cut off, and no line of the program's own is longer."""

import argparse
import io
import logging
from collections.abc import Iterator

import pytest
from rich.console import Console

from changeling.cli import display, process
from changeling.cli.check import _wrapped
from changeling.cli.main import _parse
from changeling.model.printable import counted, sized
from changeling.pipelines import lakehouse

WIDTH = 80


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal of 80 columns shows."""
    shown = io.StringIO()

    def console(**given: object) -> Console:
        given.pop("width", None)
        return Console(file=shown, force_terminal=True, color_system=None, width=WIDTH, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(display, "Console", console)
    return shown


def test_a_table_that_is_too_wide_is_shown_in_parts_with_its_first_column(terminal: io.StringIO) -> None:
    made = display.table("table", "origin", numbers=tuple(f"number {place}" for place in range(10)))
    made.add_row("shop.public.customers", "carried", *(f"{place:,}" for place in range(1_000, 1_010)))
    display.show_table(made)
    lines = [line.rstrip() for line in terminal.getvalue().splitlines()]
    assert max(map(len, lines)) <= WIDTH
    assert "…" not in terminal.getvalue()
    parts = "\n".join(lines).split("\n\n")
    assert [part.splitlines()[0].split()[0] for part in parts] == ["table"] * 2
    assert [part.splitlines()[1].split()[0] for part in parts] == ["shop.public.customers"] * 2
    numbers = [word for part in parts for word in part.splitlines()[1].split()[1:]]
    assert numbers == ["carried", *(f"{place:,}" for place in range(1_000, 1_010))]


def test_a_table_that_fits_is_one(terminal: io.StringIO) -> None:
    made = display.table("id", "name")
    made.add_row("1", "x" * (WIDTH - 4))
    display.show_table(made)
    assert terminal.getvalue().splitlines() == [f"id  name{' ' * (WIDTH - 8)}", f"1   {'x' * (WIDTH - 4)}"]


def test_cells_that_are_folded_are_whole(terminal: io.StringIO) -> None:
    made = display.table("offset", "value")
    made.add_row("7", "0123456789" * 20)
    display.show_table(made, folded=True)
    found = "".join(line.removeprefix("7").strip() for line in terminal.getvalue().splitlines()[1:])
    assert found == "0123456789" * 20


def test_findings_are_wrapped_below_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a first line that is long " * 4 + "\n  1: a reason"
    assert list(_wrapped("✓ file  ", text)) == [f"✓ file  {'a first line that is long ' * 4}", "        1: a reason"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    lines = list(_wrapped("✓ file  ", text))
    assert len(lines) == 3
    assert max(map(len, lines)) <= WIDTH
    assert [line[:8] for line in lines] == ["✓ file  ", " " * 8, " " * 8]


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from parsers(one)


def test_every_verb_explains_itself_and_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    caught: list[argparse.ArgumentParser] = []

    def caught_by(parser: argparse.ArgumentParser, _: list[str]) -> argparse.Namespace:
        caught.append(parser)
        return argparse.Namespace(verb="formats")

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", caught_by)
    # It completes all of them.
    _parse(["completion"])
    found = list(parsers(caught[0]))
    assert len(found) > 20
    for one in found:
        assert one.description, one.prog
        assert max(map(len, one.format_help().splitlines())) <= WIDTH, one.prog
        for action in one._actions:
            if not isinstance(action, argparse._SubParsersAction):
                assert action.help, (one.prog, action.dest)


def test_the_start_of_spark_is_reported_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger(lakehouse.__name__)
    process.announce_spark()
    assert not logger.handlers
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    try:
        process.announce_spark()
        process.announce_spark()
        lakehouse._LOGGER.info("starting Spark")
        assert capsys.readouterr().err == "starting Spark\n"
    finally:
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (99_999, "99,999 bytes"),
        (100_000, "0.1 MB"),
        (16_200_000, "16.2 MB"),
        (3 * 10**12, "3.0 TB"),
    ],
)
def test_sizes(amount: int, text: str) -> None:
    assert sized(amount) == text


def test_one_is_no_plural() -> None:
    assert [counted(number, "record") for number in (0, 1, 2_041)] == ["0 records", "1 record", "2,041 records"]
