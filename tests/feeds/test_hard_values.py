"""Values that are hard to keep, in feeds of every format and mode: each record is what was looked at digit by digit, once and for all.

Every feed is one file in `samples/values`, a record a line as `feed read --json` prints it, without the name of the feed and the
time of publishing.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from changeling.cli.main import main
from changeling.feeds.verification import EQUAL
from changeling.formats import registry
from changeling.model import json_text
from tests.log.lakes import Shop, shop

pytestmark = pytest.mark.usefixtures("spark")

SAMPLES = Path(__file__).parent / "samples" / "values"
ROWS = "my.table x"
COLUMNS = {
    "id": "uint64",
    "a.b": "decimal(38,10)",
    "c d": "decimal(10,2)",
    "f": "float64",
    "at": "timestamptz",
    "raw": "bytes",
    "j": "json",
    "t": "string",
    "dyn": "decimal",
    "n'\"": "string",
}
FIRST = [
    r"""{"key":[1],"update":{"a.b":"1234567890123456789012345678.9012345678","c d":"150.00","f":-0.0,"at":"2020-08-12T12:34:56.123000Z",
    "raw":"AQID/w==","j":{"a":1.50,"b":[null,{"ü":"\u0001"}],"big":123456789012345678901234567890},"t":"ü\"\\\u0001\n\t\u2028😀'`,","dyn":".3321e1",
    "n'\"":""},"ts":[1700000000001,50]}""",
    """{"key":[18446744073709551615],"update":{"a.b":"-0.0000000001","f":1e-7,"t":null},"ts":[1700000000002,7]}""",
]
THEN = [
    # A new row of which some columns are given, and one that replaces nothing.
    """{"key":[2],"update":{"c d":"99999999.99","f":"nan","dyn":null},"ts":[1700000000003,60]}""",
    """{"key":[4],"reset":{"f":1.7976931348623157e308},"ts":[1700000000004,9]}""",
    """{"key":[1],"update":{"c d":"0.10","t":null,"dyn":null},"ts":[1700000000005,8]}""",
    """{"key":[18446744073709551615],"reset":{"f":5e-324,"t":""},"ts":[1700000000006,10]}""",
    """{"key":[3],"update":{"f":"-inf","t":"null"},"ts":[1700000000007,3]}""",
    """{"key":[3],"erase":{},"ts":[1700000000008,2]}""",
]
BEFORE = r"""{"_id":"k \"ü\"","price":150.00,"dec":"25.50","big":18446744073709551615,"huge":1234567890123456789012345678901234567890.5,
"n":1,"small":1e-7,"at":"2023-12-25T15:30:00.123456789Z","c d":{"x":[1.10,null],"n":-74.0060},"mixed":"1","none":null}"""
AFTER = (
    BEFORE.replace("150.00", "150.125").replace('"n":1,', '"n":1.5,').replace('"mixed":"1"', '"mixed":1')
)  # Three columns need other types.


def document(op: str, before: str | None, after: str | None, number: int) -> str:
    source = {"version": "3.0.0", "connector": "xtdb-cdc", "name": "n", "ts_ms": 1_700_000_000_000 + number}
    source |= {"snapshot": None, "db": "mydb", "table": "docs", "tx_id": number, "system_time": source["ts_ms"]}
    place = {"id": str(number), "total_order": number, "data_collection_order": 0}
    made = {"before": before, "after": after, "source": source, "op": op, "ts_ms": source["ts_ms"]}
    return json.dumps({**made, "transaction": place})


def declared() -> dict[str, tuple[str, str, str]]:
    """Feeds by their names: their tables, formats and modes."""
    every = {
        f"rows_{name}_{mode}": (ROWS, name, mode)
        for name in registry.names()
        for mode in registry.get(name).feed_modes
        if not name.startswith("ydb-")
    }
    of_ydb = [("ydb-json", "UPDATES"), ("ydb-debezium", "OLD_IMAGE"), ("ydb-debezium", "UPDATES")]
    every |= {f"rows_{name}_{mode}": (ROWS, name, mode) for name, mode in of_ydb}
    both = ("xtdb", "debezium-json", "arcion-json", "ydb-json")
    every |= {f"docs_{name}": ("docs", name, "NEW_AND_OLD_IMAGES") for name in both}
    return {name.replace("-", "_").lower(): found for name, found in every.items()}


def printed(made: Shop, feed: str, capfdbinary: pytest.CaptureFixture[bytes]) -> list[bytes]:
    capfdbinary.readouterr()
    assert main(["feed", "read", feed, "--json", "--pipeline", str(made.file)]) == 0
    lines = []
    for line in capfdbinary.readouterr().out.splitlines():
        members = json_text.members(line)
        assert members.pop("feed") == f'"{feed}"'.encode()
        assert members.pop("timestamp")
        lines.append(json_text.join(members.items()))
    return lines


def test_every_format_and_mode_keeps_what_is_hard_to_keep(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    rows: dict[str, Any] = {"name": "rows", "type": "files", "path": "in/rows/*", "format": "ydb-json", "key": ["id"]}
    rows |= {"table": f'"{ROWS}"', "columns": COLUMNS, "options": {"mode": "UPDATES"}}
    docs = {"name": "docs", "type": "files", "path": "in/docs/*", "format": "xtdb"}
    made = shop(tmp_path, rows, docs)
    made.write("rows/1.json", *(line.replace("\n", "") for line in FIRST))
    made.write("docs/1.json", document("c", None, BEFORE, 100))
    made.pipeline.run(once=True)
    feeds = declared()
    made.pipeline.sql(
        ";".join(
            f"ALTER TABLE `{table}` ADD CHANGEFEED {name} WITH (FORMAT = '{format}', MODE = '{mode}', INITIAL_SCAN = TRUE)"
            for name, (table, format, mode) in feeds.items()
        )
    )
    made.write("rows/2.json", *THEN)
    made.write("docs/2.json", document("u", BEFORE, AFTER, 101), document("d", AFTER, None, 102))
    made.pipeline.run(once=True)

    for name, (_, format, mode) in feeds.items():
        assert printed(made, name, capfdbinary) == (SAMPLES / f"{name}.jsonl").read_bytes().splitlines(), name
        found = made.pipeline.verify_feed(name)
        assert not found.faults, (name, found.faults)
        # Arcion's JSON has no place for a text that is null.
        is_whole = mode != "OLD_IMAGE" and (format, mode) != ("ydb-debezium", "UPDATES")
        is_whole &= not name.startswith(("rows_arcion_json", "rows_arcion_native"))
        assert (EQUAL in found.checks) is is_whole, (name, found.not_checked)
    assert main(["rejects", "--json", "--pipeline", str(made.file)]) == 0
    rejected = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert {one["source"] for one in rejected} == {
        f"feed {name}" for name in feeds if name.startswith(("rows_arcion_json", "rows_arcion_native"))
    }
    assert all("null-text" in one["reason"] and one["origin"] is None for one in rejected)
