"""What comes from records is shown in one line, and never looks like what the program says."""

import json
from pathlib import Path

import pytest

from changeling.cli import main
from changeling.cli.display import show_table, table
from changeling.model.errors import nearest
from changeling.model.printable import printable, printable_lines
from changeling.model.table import TableName
from changeling.targets.table_mapping import TargetTable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ümläut, 漢字, 🙂", "plain text, ümläut, 漢字, 🙂"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\x00\x07\x1b[31m\x7f\x85\x9b", r"\x00\x07\x1b[31m\x7f\x85\x9b"),
        ("\u2028\u2029\u202e\u2066", r"\u2028\u2029\u202e\u2066"),
        ("\ud800", r"\ud800"),
        # Letters that join others, and blanks of another width, belong to languages.
        ("\u200d\u00a0\u3000", "\u200d\u00a0\u3000"),
    ],
)
def test_what_is_no_letter_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_message_of_several_lines_is_one_message() -> None:
    assert printable_lines("a\n  b\nc\x1b\n") == "a\n  b\n  c\\x1b\n  "


def test_names_of_tables_are_of_one_line() -> None:
    name = TableName("a", "b\nc", "d\x1b")
    assert str(name) == r"a.b\nc.d\x1b"
    assert TableName.parse(name.spelled()) == name
    assert str(TargetTable("b\nc", "d")) == r"b\nc.d"
    assert nearest("zzzzzz", ["a\nb"]) == r"known: a\nb"


def test_rows_of_tables_are_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    made = table("a\nb", numbers=("n",))
    made.add_row("x\ny\x1b[2J", "1")
    made.add_row("[red]z", "2")
    show_table(made)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [[r"a\nb", "n"], [r"x\ny\x1b[2J", "1"], ["[red]z", "2"]]


def test_changes_for_people_have_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forged = "t\ninsert  shop.users"
    row = {forged: "x\x1b[2J\u202e", "id": "1\n"}
    source = {"connector": "mysql", "db": "shop", "table": forged, "file": "log.1", "pos": 1, "row": 0, "ts_ms": 1}
    record = {"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1}
    file = tmp_path / "a.json"
    # Whitespace between members is part of a value that is kept as it stood.
    file.write_text(json.dumps(record, ensure_ascii=False)[:-1] + ', "transaction": {"id": "7\\n8", "total_order": 1}}')
    assert main(["decode", str(file), "--from", "debezium-json", "--key", "id", "--pretty"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(r"insert  shop.t\ninsert  shop.users")
    assert r"tx 7\n8" in lines[0]
    assert lines[1] == r'    t\ninsert  shop.users: "x\u001b[2J\u202e"'
    assert lines[2] == r'    id: "1\n"'


def test_what_a_row_no_longer_has_is_said_without_colours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = {"connector": "mysql", "db": "shop", "table": "t", "file": "log.1", "pos": 1, "row": 0, "ts_ms": 1}
    record = {"before": {"id": 1, "a": 2, "b": 3}, "after": {"id": 1, "b": 4}, "source": source, "op": "u", "ts_ms": 1}
    (tmp_path / "a.json").write_text(json.dumps(record))
    assert main(["decode", str(tmp_path / "a.json"), "--from", "debezium-json", "--key", "id", "--pretty"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["    b: 3 -> 4", "    a: 2 -> absent"]


FORGED = "c\nchangeling: all is well\n  written 7 records"
SHOWN = r"c\nchangeling: all is well\n  written 7 records"


def test_errors_do_not_forge_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = tmp_path / f"{FORGED}\x1b[2J"
    assert main(["decode", str(lost), "--from", "xtdb"]) == 2
    assert capsys.readouterr().err == f"changeling: {tmp_path}/{SHOWN}\\x1b[2J: there is no such file\n"
    there = tmp_path / FORGED
    there.write_text("5\n")
    assert main(["decode", str(there), "--from", "xtdb", "--on-error", "fail"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"changeling: {tmp_path}/{SHOWN} record 0: not a record of this format: Expected `object`, got `int` "
        "(--on-error reject continues without it)"
    ]


def test_refusals_do_not_forge_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = {"connector": "mysql", "db": "shop", "file": "log.1", "row": 0, "ts_ms": 1}
    records = [
        {"before": None, "after": {"id": 1, column: 2}, "source": {**source, "table": table, "pos": pos}, "op": "c"}
        for pos, (table, column) in enumerate([(FORGED, "a"), ("t", FORGED)])
    ]
    Path(FORGED).write_text("\n".join(map(json.dumps, records)))
    command = ["convert", FORGED, "--from", "debezium-json", "--key", "id", "--drop", "all", "-O", "out"]
    assert main([*command[:-4], "--to", "ydb-json", "-O", "out"]) == 4
    refusal = capsys.readouterr().err
    assert f"the input has several: shop.{SHOWN}, shop.t" in refusal
    assert f"({SHOWN} record 0)" in refusal
    assert main([*command, "--to", "arcion-csv"]) == 4
    refusal += capsys.readouterr().err
    assert SHOWN in refusal.splitlines()[-1]
    assert not [line for line in refusal.splitlines() if line.strip().startswith(("changeling: all", "written"))]
