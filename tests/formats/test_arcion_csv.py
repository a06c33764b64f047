"""Reading arcion-csv beyond its golden cases: presence, widths, headers, styles, rejects, types."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.formats import registry
from changeling.formats.encoding import typed
from changeling.formats.format import read_options
from changeling.formats.framing import HEADER, CsvRows
from changeling.model import arrow_layouts
from changeling.model.errors import UsageError
from changeling.model.line import lines

GOLDEN = Path(__file__).parents[1] / "golden" / "arcion-csv"
CURSOR = '"{""timestamp"":1657516903000,""log"":""bin.000010"",""position"":7461}"'
COUNTS = '"{""insertCount"":1,""updateCount"":0,""deleteCount"":0,""replaceCount"":0}"'
TWO = {"columns": "id:int64,name:string"}
HEAD = "id_NEW,id_OLD,id_EXISTS,name_NEW,name_OLD,name_EXISTS,opType,cursor,operationcount"


def realtime(cells: str, letter: str = "U") -> str:
    return f"{cells},{letter},{CURSOR},{COUNTS}"


def records(rows: list[str], header: str | None = None) -> pa.RecordBatch:
    headers = None if header is None else [{"name": HEADER, "value": header.encode()}]
    return pa.record_batch(
        [pa.array([row.encode() for row in rows], pa.binary()), pa.array([headers] * len(rows), arrow_layouts.HEADERS)],
        names=["value", "headers"],
    )


def decoded(*rows: str, header_row: str | None = None, **options: Any) -> list[dict[str, Any]]:
    changes, rejects = changeling.decode(records([*rows], header_row), "arcion-csv", **options)
    assert rejects.to_pylist() == []
    return [json.loads(line) for part in changes.to_batches() for line in lines(part)]


def reason(row: str, header_row: str | None = None, **options: Any) -> str:
    changes, rejects = changeling.decode(records([row], header_row), "arcion-csv", **options)
    assert (changes.num_rows, rejects.num_rows) == (0, 1)
    return str(rejects["reason"][0].as_py())


def rewritten(*rows: str, read: dict[str, Any], **options: Any) -> list[str]:
    changes, _ = changeling.decode(records([*rows]), "arcion-csv", **read)
    made, rejects = changeling.encode(changes, "arcion-csv", **options)
    assert rejects.to_pylist() == []
    return [value.decode() for value in made["value"].to_pylist()]


@pytest.mark.parametrize(("bits", "before", "after"), [("0", 0, 0), ("1", 0, 1), ("2", 1, 0), ("3", 1, 1)])
@pytest.mark.parametrize("null", [False, True])
def test_000_07_08_10_and_11_exists_decides_what_is_there(bits: str, before: bool, after: bool, null: bool) -> None:
    """NEW is in `after`, OLD in `before`; with its bit NULL is a value, without it the column is unknown."""
    new, old = ("NULL", "NULL") if null else ("n" if after else "NULL", "o" if before else "NULL")
    row = realtime(f"{new},{old},{bits},1,1,3")
    (found,) = decoded(row, columns="c:string,id:int64")
    shown_after = {"c": None if null else "n"} if after else {}
    shown_before = {"c": None if null else "o"} if before else {}
    assert (found["after"], found["before"]) == ({**shown_after, "id": "1"}, {**shown_before, "id": "1"})
    assert rewritten(row, read={"columns": "c:string,id:int64"}) == [row]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (realtime("1,NULL,1"), "the row has 6 fields, a realtime row of 2 columns (id, name) has 3 x 2 + 3 = 9"),
        (
            "1,x",
            "the row has 2 fields, a realtime row of 2 columns (id, name) has 3 x 2 + 3 = 9; it has the width of a snapshot row: "
            "-o mode=snapshot",
        ),
        (realtime("1,NULL,1,x,NULL,4"), "exists of column 'name' is '4': it must be 0, 1, 2 or 3"),
        (realtime("1,NULL,1,x,NULL,NULL"), "exists of column 'name' is 'NULL': it must be 0, 1, 2 or 3"),
        (realtime("1,NULL,1,x,NULL,1", "X"), "unknown opType 'X': Arcion has I, U and D"),
        (realtime("1,NULL,1,x,NULL,1", "NULL"), "unknown opType 'NULL': Arcion has I, U and D"),
        (realtime("1,1,3,x,NULL,0", "D"), "a delete with id in after: exists may be 0 or 2 only"),
        (
            f"1,NULL,1,x,NULL,1,I,NULL,{COUNTS}",
            "cursor is not a JSON object in a string: Expected `object`, got `null`",
        ),
        (f"1,NULL,1,x,NULL,1,I,{{,{COUNTS}", "cursor is not a JSON object in a string: Input data was truncated"),
        ('1,"x', "field 2 of the row has a quote or an escape that is not closed before the next delimiter"),
        ('1,"x"y,2', "field 2 of the row has a quote or an escape that is not closed before the next delimiter"),
        (HEAD, "the row is a header: with -o header=true the first row of each file is taken for one"),
    ],
)
def test_000_04_and_12_wrong_rows_are_rejected_with_the_reason(row: str, why: str) -> None:
    assert reason(row, **TWO) == why


def test_000_02_the_width_of_a_snapshot_row_is_its_columns() -> None:
    assert (
        reason("1,x,y", mode="snapshot", **TWO) == "the row has 3 fields, a snapshot row of 2 columns (id, name) has 2"
    )
    assert "-o mode=realtime" in reason(realtime("1,NULL,1,x,NULL,1"), mode="snapshot", **TWO)


def test_a_row_without_its_key_column_is_rejected() -> None:
    assert reason(realtime("NULL,NULL,0,x,NULL,1"), key="id", **TWO) == (
        "the record lacks key column 'id': no image shows it"
    )


def test_a_tombstone_comes_back_as_one() -> None:
    changes, _ = changeling.decode([{"value": None, "key": '{"id":"1"}', "topic": "t"}], "arcion-csv")
    made, rejects = changeling.encode(changes, "arcion-csv", keyed=True)
    assert rejects.to_pylist() == []
    assert (made["value"].to_pylist(), made["key"].to_pylist()) == ([None], [b'{"id":"1"}'])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        (TWO, False),
        ({"header": "true", **TWO}, True),
        ({"header": "false", **TWO}, False),
    ],
)
def test_a_header_is_expected_where_no_columns_are_given(options: dict[str, Any], expected: bool) -> None:
    form = registry.get("arcion-csv")
    found = form.framing(read_options(form, {"delimiter": ";", "escape": "\\", **options}))
    assert isinstance(found, CsvRows)
    assert replace(found, usual_header=None) == CsvRows(";", '"', "\\", header=expected)


def test_with_columns_a_first_row_that_names_them_is_a_header() -> None:
    form = registry.get("arcion-csv")
    found = form.framing(read_options(form, {"columns": "id:int64"}))
    assert found == CsvRows(header=False, usual_header=b"id_NEW,id_OLD,id_EXISTS,opType,cursor,operationcount")
    assert form.framing(read_options(form, {"columns": "id:int64", "header": False})) == CsvRows(header=False)


def test_a_file_without_header_needs_columns() -> None:
    with pytest.raises(UsageError, match="without a header the columns must be given"):
        changeling.decode(["1,2"], "arcion-csv", header=False)
    assert reason("1,2") == "the columns are not known: there is no header, and none are given with --columns"


def test_columns_from_a_header() -> None:
    row = realtime("1,NULL,1,x,NULL,1", "I")
    (found,) = decoded(row, header_row=HEAD, key="id")
    assert (found["key"], found["after"], found["after_image"]) == ({"id": "1"}, {"id": "1", "name": "x"}, "full")
    (found,) = decoded("1,x", header_row='\ufeffid,"a, b"', mode="snapshot")
    assert found["after"] == {"id": "1", "a, b": "x"}


def test_a_header_of_other_names_is_counted_against_the_given_columns() -> None:
    other = "new1,old1,e1,new2,old2,e2,op,c,n"
    row = realtime("1,NULL,1,x,NULL,1", "I")
    (found,) = decoded(row, header_row=other, **TWO)
    assert found["after"] == {"id": "1", "name": "x"}
    assert reason(row, other).startswith("not a header of realtime rows: new1, old1, e1,")


@pytest.mark.parametrize(
    ("header", "mode", "why"),
    [
        ("a,a", "snapshot", "the header names a column twice, or not at all: a, a"),
        ("a,", "snapshot", "the header names a column twice, or not at all: a, "),
        ("id,name", "realtime", "not a header of realtime rows: id, name; "),
        (HEAD, "snapshot", "the header is one of realtime rows, not of a snapshot: id_NEW, "),
    ],
)
def test_wrong_headers_are_reported(header: str, mode: str, why: str) -> None:
    assert reason("1,x", header, mode=mode).startswith(why)


def test_a_snapshot_may_hold_a_row_that_looks_like_a_header() -> None:
    assert reason("id,name", mode="snapshot", **TWO).startswith("the row is a header")
    (found,) = decoded("id,name", mode="snapshot", header=False, **TWO)
    assert found["after"] == {"id": "id", "name": "name"}


def test_000_03_blanks_are_kept_or_trimmed() -> None:
    columns = "r_regionkey:int32,r_name:string,r_comment:string"
    row = '0, AFRICA , " a ,b"'
    (trimmed,) = decoded(row, columns=columns, mode="snapshot", trim="true")
    assert trimmed["after"] == {"r_regionkey": "0", "r_name": "AFRICA", "r_comment": " a ,b"}
    (kept,) = decoded("0, AFRICA ,AFRICA", columns=columns, mode="snapshot")
    assert kept["after"] == {"r_regionkey": "0", "r_name": " AFRICA ", "r_comment": "AFRICA"}


def test_trimmed_rows_of_a_tab_separated_file() -> None:
    (found,) = decoded('\t "x" ', delimiter="\t", trim=True, mode="snapshot", **TWO)
    assert found["after"] == {"id": "", "name": "x"}


def test_000_09_null_text_is_an_option() -> None:
    read = {"mode": "snapshot", "null_text": "", **TWO}
    (one, two) = decoded(',""', "1,NULL", **read)
    assert [one["after"], two["after"]] == [{"id": None, "name": ""}, {"id": "1", "name": "NULL"}]
    assert rewritten(',""', "1,NULL", read=read) == ["NULL,", '1,"NULL"']
    assert rewritten(',""', "1,NULL", read=read, null_text="") == [',""', "1,NULL"]


def test_a_row_is_written_in_another_style_than_it_was_read_in() -> None:
    """The original spelling is restored only where it means the same in the style that is written."""
    row = '"1","a;b"'
    assert rewritten(row, read={"mode": "snapshot", **TWO}) == [row]
    assert rewritten(row, read={"mode": "snapshot", **TWO}, delimiter=";", quote="'") == ["1;'a;b'"]
    realtime_row = realtime('"1",NULL,1,x,lost,1', "I")
    assert rewritten(realtime_row, read=TWO) == [realtime_row]
    assert rewritten(realtime_row, read=TWO, delimiter="|")[0].startswith("1|NULL|1|x|NULL|1|I|")


@pytest.mark.parametrize(
    "options",
    [{"delimiter": '"'}, {"escape": ","}, {"null_text": "a,b"}, {"null_text": '"'}, {"null_text": "\n"}],
)
def test_contradicting_letters_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        changeling.decode(["1"], "arcion-csv", **TWO, **options)


@pytest.mark.parametrize("options", [{"delimiter": ",,"}, {"delimiter": "é"}, {"quote": ""}, {"mode": "delta"}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="reading arcion-csv"):
        changeling.decode(["1"], "arcion-csv", **TWO, **options)


def test_000_19_the_samples_are_one_rows_life_in_any_order() -> None:
    """The delete's cursor spells `dscId` as `dscI`, and still comes last."""
    rows = (GOLDEN / "seed-realtime-region" / "rows.csv").read_text().splitlines()
    found = decoded(*rows[::-1], columns="r_comment:string,r_name:string,r_regionkey:int32", key="r_regionkey")
    life = [(one["op"], one["key"]) for one in sorted(found, key=lambda one: str(one["position"]))]
    assert life == [(op, {"r_regionkey": "10"}) for op in ("insert", "update", "delete")]


def test_values_are_typed_where_columns_are_known() -> None:
    columns = "n:int32,at:timestamp,j:json,l:array<string>,d:decimal(38,10),u:uint64"
    row = '-2147483648,2022-07-11 05:21:43.5,"{""a"":1.50}","[""x"",""null""]",0.0000000001,18446744073709551615'
    changes, _ = changeling.decode([row], "arcion-csv", columns=columns, mode="snapshot")
    (line,) = lines(typed(changes.to_batches()[0])[0])
    assert json.loads(line)["after"] == {
        "n": -2147483648,
        "at": "2022-07-11T05:21:43.500",
        "j": {"a": 1.5},
        "l": ["x", "null"],
        "d": "0.0000000001",
        "u": 18446744073709551615,
    }
