"""One Iceberg catalog with two clients: the settings that Spark and PyIceberg need for it."""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from changeling.model.errors import ChangelingError, UsageError

NAME = "lake"
_S3 = ("s3://", "s3a://")
_PYICEBERG_ONLY = "pyiceberg."


@dataclass(frozen=True)
class Catalog:
    """The catalog of a pipeline."""

    spark: dict[str, str]
    """All of Spark's settings."""
    pyiceberg: dict[str, str]
    database: Path | None
    """The SQLite file, where the catalog is the embedded one."""


def catalog(warehouse: str, folder: Path, given: Mapping[str, str]) -> Catalog:
    """The catalog of a warehouse: as the user describes it in Iceberg's own words, else SQLite.

    The SQLite file lies in the warehouse where that is a local folder, else in `folder`. What the user says under `pyiceberg.…`
    goes to PyIceberg alone, which spells some settings in its own way.
    """
    if "://" not in warehouse and (odd := [sign for sign in "#?%" if sign in warehouse]):
        raise UsageError(
            f"the warehouse's path has a {odd[0]!r} in it, which Iceberg's readers take apart: choose another"
        )
    for_pyiceberg = {
        name.removeprefix(_PYICEBERG_ONLY): value for name, value in given.items() if name.startswith(_PYICEBERG_ONLY)
    }
    options = {name: value for name, value in given.items() if not name.startswith(_PYICEBERG_ONLY)}
    store = _store(warehouse)
    if options:
        settings = {**store, "warehouse": warehouse, **options}
        database = None
        python = {**settings, **_python_names(options)}
    else:
        database = (folder if "://" in warehouse else Path(warehouse)) / "catalog.db"
        settings = {
            **store,
            "warehouse": warehouse,
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{database}?busy_timeout=60000",
        }
        settings |= {"jdbc.schema-version": "V1"}
        python = {**store, "warehouse": warehouse, "type": "sql", "uri": f"sqlite:///{database}"}
    prefix = f"spark.sql.catalog.{NAME}"
    # Tables are reloaded each time: another process may have written to them.
    spark = {prefix: "org.apache.iceberg.spark.SparkCatalog", f"{prefix}.cache-enabled": "false"}
    spark |= {f"{prefix}.{name}": value for name, value in settings.items()}
    return Catalog(spark, {**python, **for_pyiceberg}, database)


def prepare(database: Path) -> None:
    """Creates the embedded catalog as Iceberg's two clients would: theirs is not atomic, and fails where both do it at once."""
    database.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(database, timeout=60, isolation_level=None)) as connection:
        for statement in _TABLES:
            connection.execute(statement)


def check_place(catalog: Catalog, namespace: str) -> None:
    """Raises `ChangelingError` where the tables of the embedded catalog lie elsewhere: Iceberg's paths are absolute.

    A copied warehouse would write into the one it was copied from, and drop its files with its own.
    """
    warehouse = catalog.pyiceberg["warehouse"]
    if catalog.database is None or "://" in warehouse or not catalog.database.exists():
        return
    query = "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ?"
    with closing(sqlite3.connect(catalog.database, timeout=60)) as connection:
        try:
            found = [str(place) for (place,) in connection.execute(query, (NAME, namespace))]
        except sqlite3.OperationalError:
            return
    for place in found:
        file = place.removeprefix("file:")
        if not lies_in(file, warehouse):
            folder = file.rpartition(f"/{namespace}/")[0]
            raise ChangelingError(
                f"the warehouse {warehouse} was moved or copied: its catalog has the paths of {folder}. Move it back there, or "
                "let `changeling relocate` correct the paths"
            )


def lies_in(file: str, folder: str) -> bool:
    """Whether a file is in a folder, also where one of them is spelled by way of a link."""
    return Path(file).is_relative_to(folder) or Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))


_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS iceberg_tables (
        catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
        metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
        PRIMARY KEY (catalog_name, table_namespace, table_name))
    """,
    """
    CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
        catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL,
        property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))
    """,
)


def _store(warehouse: str) -> dict[str, str]:
    """Where the warehouse lies on S3: the endpoint and the region of the environment, as for files that are read."""
    if not warehouse.startswith(_S3):
        return {}
    settings = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    if endpoint := os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"):
        settings |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    if region := os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
        settings |= {"client.region": region, "s3.region": region}
    return settings


def _python_names(options: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg's names of options that Java names differently."""
    if options.get("type") != "jdbc":
        return {}
    uri = options.get("uri", "")
    for java, python in (("jdbc:sqlite:", "sqlite:///"), ("jdbc:postgresql:", "postgresql+psycopg2:")):
        if uri.startswith(java):
            return {"type": "sql", "uri": python + uri.removeprefix(java).partition("?")[0]}
    raise UsageError(f"catalog: the uri {uri.partition('?')[0]!r} must start with jdbc:sqlite: or jdbc:postgresql:")
