"""The CSV layout of `dataworks`: headers, quoting, NULL, and the way between the two layouts."""

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import changeling
from changeling.conformance.cases import CASES, SCHEMA, batch
from changeling.formats import registry
from changeling.formats.encoding import typed
from changeling.formats.format import read_options
from changeling.formats.framing import HEADER, CsvRows, JsonOrCsv, JsonValues
from changeling.model import arrow_layouts
from changeling.model.change import Change
from changeling.model.errors import UsageError

METADATA = ["_sequence_id_", "_operation_type_", "_execute_time_", "_before_image_", "_after_image_"]
NOT_TODAY = "a change has five metadata fields, and a row without them is not a change"


def csv_table(header: str, *rows: str) -> pa.Table:
    """Rows as the reader of a CSV file gives them."""
    headers = [[{"name": HEADER, "value": header.encode()}]] * len(rows)
    values = pa.array([found.encode() for found in rows], pa.binary())
    return pa.table({"value": values, "headers": pa.array(headers, arrow_layouts.HEADERS)})


def csv_of(records: pa.Table) -> tuple[set[str], list[str]]:
    """The headers that written rows ask for, and the rows."""
    headers = {pair["value"].decode() for pairs in records["headers"].to_pylist() for pair in pairs or ()}
    return headers, [value.decode() for value in records["value"].to_pylist()]


def refusal(change: Change, **options: Any) -> tuple[str | None, str]:
    records, rejects = changeling.encode(batch([change]), "dataworks", **options)
    assert (records.num_rows, rejects.num_rows) == (0, 1)
    return rejects["feature"][0].as_py(), rejects["reason"][0].as_py()


def test_types_come_back_with_extremes_in_both_layouts() -> None:
    for options in ({}, {"layout": "csv"}):
        records, _ = changeling.encode(batch([CASES["insert"], CASES["insert of nulls"]]), "dataworks", **options)
        changes, rejects = changeling.decode(records, "dataworks", schemas=(SCHEMA,), table="orders")
        assert rejects.num_rows == 0
        found, rejects = typed(changes.combine_chunks().to_batches()[0])
        assert rejects.num_rows == 0
        assert [json.loads(text) for text in found.column("after").to_pylist()] == [
            json.loads(CASES[case].after or "") for case in ("insert", "insert of nulls")
        ]


def test_csv_has_a_header_with_the_metadata_first() -> None:
    """001-05 in CSV, with the quoting that texts need."""
    change = msgspec.structs.replace(
        CASES["update with both images"],
        before='{"_id":"o-1","name":"a,b","count":null}',
        after='{"_id":"o-1","name":"","count":5,"doc":{"x":[1.50]}}',
        schema=None,
    )
    records, _ = changeling.encode(batch([change]), "dataworks", layout="csv")
    assert [pairs[0]["value"].decode() for pairs in records["headers"].to_pylist()] == [
        ",".join([*METADATA, "_id", "name", "count"]),
        ",".join([*METADATA, "_id", "name", "count", "doc"]),
    ]
    assert csv_of(records)[1] == ['1,U,,Y,N,o-1,"a,b",', '1,U,,N,Y,o-1,"",5,"{""x"":[1.50]}"']


@pytest.mark.parametrize(
    "header", ["a,b,{}", "{},a,b", "_after_image_,a,_before_image_,b,_sequence_id_,_excute_time_,{}"]
)
def test_csv_files_come_back_letter_for_letter(header: str) -> None:
    names = [name for name in METADATA if name not in header]
    if "_excute_time_" in header:
        names = ["_operation_type_"]
    header = header.format(",".join(names))
    cells = dict(zip(METADATA, ("07", "I", "1703505330", "N", "Y"), strict=True)) | {"a": '"x ""y"""', "b": ""}
    cells["_excute_time_"] = cells["_execute_time_"]
    text = ",".join(cells[name] for name in header.split(","))
    changes, rejects = changeling.decode(csv_table(header, text, text.replace('"x ""y"""', '"plain"')), "dataworks")
    assert rejects.num_rows == 0
    assert changes["after"].to_pylist() == ['{"a":"x \\"y\\"","b":null}', '{"a":"plain","b":null}']
    assert csv_of(changeling.encode(changes, "dataworks")[0]) == (
        {header},
        [text, text.replace('"x ""y"""', '"plain"')],
    )


@pytest.mark.parametrize(
    ("header", "text", "reason"),
    [
        (",".join([*METADATA, "a"]), "1,I,5,N,Y", "the row has 5 fields, its header 6"),
        (
            ",".join([*METADATA, "a"]),
            '1,I,5,N,Y,"x',
            "field 6 of the row has a quote or an escape that is not closed before the next delimiter",
        ),
        (
            ",".join([*METADATA, "a"]),
            '1,I,5,N,Y,"x"y',
            "field 6 of the row has a quote or an escape that is not closed before the next delimiter",
        ),
        (",".join([*METADATA, "a"]), ",I,5,N,Y,x", "`_sequence_id_` is empty"),
        (
            ",".join([*METADATA, "a"]),
            "1,I,5.0,N,Y,x",
            "`_execute_time_` must be a whole number of milliseconds, it is '5.0'",
        ),
        ("a,b", "1,2", f"there is no `_sequence_id_`: {NOT_TODAY}"),
        ("a,a", "1,2", "the header names a column twice, or not at all: a, a"),
    ],
)
def test_bad_rows_of_csv_are_rejected(header: str, text: str, reason: str) -> None:
    changes, rejects = changeling.decode(csv_table(header, text), "dataworks")
    assert (changes.num_rows, rejects["reason"].to_pylist()) == (0, [reason])


def test_other_styles_of_csv() -> None:
    style = {"delimiter": ";", "quote": "'", "null_text": "NULL"}
    table = csv_table(";".join([*METADATA, "a", "b", "c"]), "1;I;5;N;Y;NULL;'NULL';it''s", "2;I;5;N;Y;;'a;b';x,y")
    changes, _ = changeling.decode(table, "dataworks", **style)
    assert changes["after"].to_pylist() == ['{"a":null,"b":"NULL","c":"it\'\'s"}', '{"a":"","b":"a;b","c":"x,y"}']
    records, _ = changeling.encode(changes, "dataworks")
    assert csv_of(records)[1] == ["1,I,5,N,Y,,NULL,it''s", '2,I,5,N,Y,"",a;b,"x,y"']


@pytest.mark.parametrize(
    "options", [{"delimiter": '"'}, {"delimiter": ""}, {"delimiter": "\n"}, {"quote": "ab"}, {"null_text": "a,b"}]
)
def test_styles_that_cannot_be_are_wrong_calls(options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        changeling.decode([], "dataworks", **options)
    with pytest.raises(UsageError):
        changeling.encode(batch([]), "dataworks", **options)


def test_a_layout_that_was_asked_for_replaces_the_one_that_was_read() -> None:
    """Texts of CSV become values of JSON where their types are known, and values of JSON become texts."""
    columns = "id:int64,price:decimal(10,2),ok:bool,doc:json"
    table = csv_table(",".join([*METADATA, "id", "price", "ok", "doc"]), '01,I,1703505330,N,Y,5,150.00,t,"{""a"":1}"')
    changes, _ = changeling.decode(table, "dataworks", columns=columns)
    records, _ = changeling.encode(changes, "dataworks", layout="json")
    (text,) = records["value"].to_pylist()
    assert text == (
        b'{"_sequence_id_":"01","_operation_type_":"I","_execute_time_":1703505330000,"_before_image_":"N",'
        b'"_after_image_":"Y","id":5,"price":"150.00","ok":true,"doc":"{\\"a\\":1}"}'
    )
    changes, _ = changeling.decode([text], "dataworks", columns=columns)
    records, _ = changeling.encode(changes, "dataworks", layout="csv")
    assert csv_of(records)[1] == ['01,I,1703505330000,N,Y,5,150.00,true,"{""a"":1}"']


def test_csv_cannot_leave_columns_out() -> None:
    feature, reason = refusal(CASES["delete by key"], layout="csv")
    assert (feature, reason) == (
        "partial",
        "dataworks cannot carry partial: a row of CSV has a field for every column, and cannot leave one out",
    )
    records, _ = changeling.encode(batch([CASES["delete by key"]]), "dataworks", layout="csv", drop="partial")
    assert csv_of(records)[1] == ["1,D,,Y,N,o-1" + "," * 15]


def test_files_are_json_or_csv() -> None:
    form = registry.get("dataworks")
    assert form.framing(read_options(form, {"delimiter": ";", "header": False})) == JsonOrCsv(
        JsonValues(), CsvRows(delimiter=";", header=False)
    )
