"""`changeling catalog`: the settings that it prints for PyIceberg load a table; the others say only what is true."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from changeling.iceberg.catalog import NAME, catalog, prepare
from changeling.pipelines.lakehouse import catalog_of
from changeling.pipelines.loading import load
from tests.cli.conftest import Run

ROWS = [{"id": 1, "name": "Ann"}]


def pipeline(folder: Path, more: str = "warehouse: ./lake") -> Path:
    """A pipeline without tables."""
    folder.mkdir(exist_ok=True)
    file = folder / "shop.yaml"
    file.write_text(f"name: shop\n{more}\nsources:\n  - {{name: a, type: files, path: in, format: xtdb}}\n")
    return file


def filled(folder: Path) -> Path:
    """A pipeline with one replica."""
    file = pipeline(folder)
    settings = catalog_of(load(file))
    assert settings.database is not None
    prepare(settings.database)
    lake = load_catalog(NAME, **settings.pyiceberg)
    lake.create_namespace("shop_replica")
    rows = pa.Table.from_pylist(ROWS)
    lake.create_table("shop_replica.o'users", rows.schema).append(rows)
    lake.close()
    return file


def printed(run: Run, file: Path) -> dict[str, str]:
    done = run("catalog", "--json", "--pipeline", str(file))
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    assert list(found) == ["spark", "pyiceberg", "duckdb", "trino", "flink"]
    return found


def test_what_it_prints_for_pyiceberg_loads_a_table(run: Run, tmp_path: Path) -> None:
    file = filled(tmp_path / "a 'b' é")
    names: dict[str, pa.Table] = {}
    text = run("catalog", "pyiceberg", "--pipeline", str(file)).stdout
    exec(text, names)
    assert names["rows"].to_pylist() == ROWS
    names["lake"].close()


def test_spark_gets_what_the_pipeline_itself_uses(run: Run, tmp_path: Path) -> None:
    file = filled(tmp_path / "shop")
    lines = printed(run, file)["spark"].splitlines()
    given = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    jars = given.pop("spark.jars.packages").split(",")
    assert [jar.rsplit(":", 1)[0].split("_")[0] for jar in jars] == [
        "org.apache.iceberg:iceberg-spark-runtime-4.1",
        "org.xerial:sqlite-jdbc",
    ]
    assert given.pop("spark.sql.extensions").endswith("IcebergSparkSessionExtensions")
    assert given == catalog_of(load(file)).spark


def test_engines_get_a_note_where_the_embedded_catalog_ends(run: Run, tmp_path: Path) -> None:
    file = filled(tmp_path / "shop")
    found = printed(run, file)
    lake = load_catalog(NAME, **catalog_of(load(file)).pyiceberg)
    place = lake.load_table("shop_replica.o'users").metadata_location.removeprefix("file://")
    lake.close()
    escaped = place.replace("'", "''")
    assert found["duckdb"].splitlines()[-2:] == [
        'CREATE SCHEMA IF NOT EXISTS "shop_replica";',
        f"""CREATE OR REPLACE VIEW "shop_replica"."o'users" AS SELECT * FROM iceberg_scan('{escaped}');""",
    ]
    assert found["trino"] == "# Trino reads the lake where the warehouse is on s3://…; this one is not."
    assert "'catalog-impl' = 'org.apache.iceberg.jdbc.JdbcCatalog'" in found["flink"]
    assert f"'uri' = 'jdbc:sqlite:{tmp_path}/shop/lake/catalog.db?busy_timeout=60000'" in found["flink"]
    empty = printed(run, pipeline(tmp_path / "empty"))
    assert empty["duckdb"].splitlines()[-1] == "-- There are none yet: run the pipeline first."
    assert "rows =" not in empty["pyiceberg"]


@pytest.mark.parametrize(
    ("settings", "trino"),
    [
        ({}, None),
        ({"type": "nessie", "uri": "http://n"}, None),
        (
            {"type": "hive", "uri": "thrift://h:9083"},
            {"type": "hive_metastore", "hive.metastore.uri": "thrift://h:9083"},
        ),
        (
            {"type": "rest", "uri": "http://c", "warehouse": "w", "credential": "me:pass"},
            {
                "type": "rest",
                "iceberg.rest-catalog.uri": "http://c",
                "iceberg.rest-catalog.warehouse": "w",
                "iceberg.rest-catalog.security": "OAUTH2",
                "iceberg.rest-catalog.oauth2.credential": "me:pass",
            },
        ),
        (
            {"type": "jdbc", "uri": "jdbc:postgresql://h/db", "jdbc.user": "u", "jdbc.password": "p"},
            {
                "type": "jdbc",
                "iceberg.jdbc-catalog.catalog-name": "lake",
                "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
                "iceberg.jdbc-catalog.connection-url": "jdbc:postgresql://h/db",
                "iceberg.jdbc-catalog.connection-user": "u",
                "iceberg.jdbc-catalog.connection-password": "p",
                "iceberg.jdbc-catalog.default-warehouse-dir": "s3://b/lake",
            },
        ),
    ],
)
def test_trino_gets_its_own_words_of_a_catalog_that_it_knows(
    tmp_path: Path, settings: dict[str, str], trino: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from changeling.iceberg.engine_settings import engine_settings

    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    lines = engine_settings(catalog("s3://b/lake", tmp_path, settings), {}, ())["trino"].splitlines()
    if trino is None:
        assert [line[:2] for line in lines] == ["# "]
        return
    wanted = {"connector.name": "iceberg", "iceberg.catalog.type": trino.pop("type"), **trino}
    wanted |= {"fs.native-s3.enabled": "true", "s3.region": "eu-west-1"}
    assert dict(line.split("=", 1) for line in lines if not line.startswith("#")) == wanted


def test_a_rest_catalog_is_attached_and_its_secrets_are_masked(run: Run, tmp_path: Path) -> None:
    settings = '{type: rest, uri: "http://catalog:1", warehouse: w, credential: "me:${LAKE_PASSWORD}"}'
    file = pipeline(tmp_path / "shop", f"warehouse: s3://b/lake\ncatalog: {settings}")
    done = run("catalog", "--pipeline", str(file), LAKE_PASSWORD="correct horse", AWS_REGION="eu-west-1")
    assert done.returncode == 0, done.stderr
    assert "horse" not in done.stdout
    assert [line.partition(" ")[2] for line in done.stdout.splitlines() if line.startswith("== ")] == [
        *("spark", "pyiceberg", "duckdb", "trino", "flink")
    ]
    lines = done.stdout.splitlines()
    for line in (
        "CREATE OR REPLACE SECRET lake_catalog (TYPE iceberg, CLIENT_ID 'me', CLIENT_SECRET '***');",
        "ATTACH 'w' AS lake (TYPE iceberg, ENDPOINT 'http://catalog:1', SECRET lake_catalog);",
        "iceberg.rest-catalog.oauth2.credential=me:***",
        "  'catalog-type' = 'rest',",
        "spark.sql.catalog.lake.uri http://catalog:1",
    ):
        assert line in lines
