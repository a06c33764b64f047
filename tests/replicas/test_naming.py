"""Names of replicas: which tables there are decides, never which came first."""

import json
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.log import log_tables
from changeling.model.table import TableName
from changeling.replicas.replica_names import replica_names
from changeling.replicas.replica_reader import Identity
from tests.log.lakes import Shop, shop
from tests.replicas.shops import bus, item, replica, replicas, then

Row = dict[str, Any]


def identity(source: str, name: str, kind: str = "rows") -> Identity:
    return Identity(source, TableName.parse(name), kind)


def of_database(catalog: str, name: str = "users", source: str = "s") -> Identity:
    return Identity(source, TableName(catalog, None, name))


@pytest.mark.parametrize(
    "names",
    [
        {identity("s", "users"): "users"},
        {identity("s", "public.users"): "public__users", identity("s", "users"): "users"},
        {identity("s", "shop.public.users"): "public__users"},
        {of_database("north"): "users"},
        {of_database("north"): "north__users", of_database("south"): "south__users"},
        {of_database("north"): "north__users", of_database("south"): "south__users", of_database("south", "a"): "a"},
        # One of them has no database to distinguish it.
        {of_database("north"): "north__users", identity("t", "users"): "t__users"},
        {identity("s", "users"): "s__users", identity("t", "users"): "t__users"},
        # A table whose own name is what another's would be.
        {of_database("north"): "s__north__users", of_database("south"): "south__users", identity("t", "north__users"): "t__north__users"},
        {
            identity("s", "users"): "users",
            identity("s", "users", "history"): "s__users__history",
            identity("t", "users__history"): "t__users__history",
        },
        # Its mode was another: both are kept.
        {identity("s", "users"): "users", identity("s", "users", "changes"): "users__changes"},
        {identity("s", "users", "changes"): "users"},
        {Identity("s", TableName("north", None, "")): "north__", Identity("s", TableName(None, None, "a\0b")): "a\u2400b"},
    ],
)  # fmt: skip
def test_names_are_as_short_as_all_of_them_allow(names: dict[Identity, str]) -> None:
    assert replica_names(names) == names


def test_any_tables_have_names_of_their_own_whatever_comes_first() -> None:
    parts = [None, "a", "a__a"]
    tables = [TableName(catalog, schema, "a") for catalog, schema in product(parts, parts)]
    everything = [Identity(source, table, kind) for source, table, kind in product(["a", "b"], tables, ("rows", "history", "changes"))]  # fmt: skip
    assert len(set(replica_names(everything).values())) == len(everything)
    for some in combinations(everything[:12], 3):
        found = {tuple(sorted(replica_names(order).items(), key=repr)) for order in permutations(some)}
        assert len(found) == 1
        assert len(set(dict(*found).values())) == 3


def of_mysql(database: str, number: int, name: str) -> str:
    """A row of a table `users`, as Debezium sends it for one of several databases."""
    source = {"connector": "mysql", "db": database, "table": "users", "file": "log.000001", "pos": number, "row": 0}
    fields = [{"field": "id", "type": "int64"}, {"field": "name", "type": "string", "optional": True}]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields, "optional": True}]}
    row: Row = {"id": number, "name": name}
    payload = {"before": None, "after": row, "source": {**source, "ts_ms": number * 1000}, "op": "c"}
    return json.dumps({"schema": schema, "payload": {**payload, "ts_ms": number * 1000}})


def mysql(folder: Path) -> Shop:
    source = {"name": "bus", "type": "files", "path": "in/*.json", "format": "debezium-json", "key": ["id"]}
    return shop(folder, source, tables=[{"name": "users", "mode": "history"}])


def ran(made: Shop, *records: str) -> list[str]:
    """Runs the pipeline with these records in a new file; returns what it warns of."""
    from tests.log.test_running import run

    made.write(f"{len(list(made.folder.glob('in/*')))}.json", *records)
    return run(made)


NORTH = of_mysql("north", 1, "ann")
SOUTH = of_mysql("south", 2, "bob")
LATER = of_mysql("north", 3, "eve")
ANN, BOB, EVE = ({"id": number, "name": name} for number, name in ((1, "ann"), (2, "bob"), (3, "eve")))


def test_tables_of_one_name_have_the_same_replicas_whichever_came_first(spark: SparkSession, tmp_path: Path) -> None:
    found = []
    for place, batches in enumerate([[[NORTH, SOUTH, LATER]], [[NORTH], [SOUTH], [LATER]], [[SOUTH], [LATER, NORTH]]]):
        made = mysql(tmp_path / str(place))
        warned = [ran(made, *records) for records in batches]
        names = [name for name in replicas(made) if "history" not in name]
        found.append({name: replica(made, name) for name in names})
        if place == 1:
            assert warned[0] == warned[2] == []
            assert sorted(warned[1]) == [
                f"replicas: the replica of north.users of source bus is called north__users{suffix} from now on, no longer "
                f"users{suffix}: there is another table that could be called so"
                for suffix in ("", "__history")
            ]
            renamed = made
    assert found == [{"north__users": [ANN, EVE], "south__users": [BOB]}] * 3
    assert replicas(renamed) == ["north__users", "north__users__history", "south__users", "south__users__history"]
    # What was known of it under its former name is not lost.
    assert then(renamed, "north.users", point=1) == then(renamed, "north.users", point=2) == [ANN]
    assert then(renamed, "north.users", point=3) == [ANN, EVE]
    points = sorted(renamed.rows(log_tables.POINTS), key=lambda row: int(row["point"]))
    assert [table["name"] for table in points[0]["tables"]] == ["users", "users__history"]
    done = {one.table: one for one in renamed.pipeline.maintain()}
    assert "north__users" in done
    assert "users" not in done
    assert then(renamed, "north.users", point=1) == [ANN]
    assert renamed.pipeline.rebuild("north.users") == 2
    assert replica(renamed, "north__users") == [ANN, EVE]


def test_rows_and_changes_of_a_table_have_the_same_names_whichever_came_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    merged, typed = {"name": "users", "mode": "merge"}, {"name": "users", "mode": "append", "typed": True}
    for order in ([merged, typed], [typed, merged]):
        folder = tmp_path / str(order.index(merged))
        for number, rule in enumerate(order, start=1):
            made = bus(folder, tables=[rule])
            ran(made, item(number, "insert", {"id": number, "name": "n", "n": number}))
        assert replicas(made) == ["public__users", "public__users__changes"]
        # Neither lies in the folder of the other: maintenance removes what is not its own.
        assert len(list((folder / "lake" / "shop_replica").iterdir())) == 2
        last = order[-1] is merged
        assert [row["id"] for row in replica(made, "public__users")] == ([1, 2] if last else [1])
        assert [row["id"] for row in replica(made, "public__users__changes")] == ([1] if last else [1, 2])
