"""How other engines find a catalog: for each the settings or statements that it takes, as text.

Only what is true of the catalog at hand is said; an engine that cannot read it gets a comment with the reason. The tables have
Iceberg's format version 3, whose deletion vectors older engines do not know.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from changeling.iceberg.catalog import NAME, Catalog

_S3 = ("s3://", "s3a://")
_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_FLINK_TYPES = ("hadoop", "hive", "rest")
_FLINK_CLASSES = {
    "jdbc": "org.apache.iceberg.jdbc.JdbcCatalog",
    "glue": "org.apache.iceberg.aws.glue.GlueCatalog",
    "nessie": "org.apache.iceberg.nessie.NessieCatalog",
}


def engine_settings(catalog: Catalog, tables: Mapping[tuple[str, str], str], jars: Sequence[str]) -> dict[str, str]:
    """By engine, what makes it read the catalog as `lake`.

    `tables` are the metadata files of the present tables, by namespace and name; `jars` what Spark needs, as coordinates.
    """
    made: dict[str, Callable[[], Iterator[str]]] = {
        "spark": lambda: _spark(catalog, jars),
        "pyiceberg": lambda: _pyiceberg(catalog, tables),
        "duckdb": lambda: _duckdb(catalog, tables),
        "trino": lambda: _trino(catalog),
        "flink": lambda: _flink(catalog),
    }
    return {name: "\n".join(lines()) for name, lines in made.items()}


def _spark(catalog: Catalog, jars: Sequence[str]) -> Iterator[str]:
    yield "# spark-defaults.conf, or --conf of spark-submit and spark-sql"
    if _uri(catalog).startswith("jdbc:") and not _uri(catalog).startswith("jdbc:sqlite:"):
        yield "# spark.jars.packages needs the JDBC driver of the catalog's database as well"
    yield f"spark.jars.packages {','.join(jars)}"
    yield f"spark.sql.extensions {_EXTENSIONS}"
    yield from (f"{name} {value}" for name, value in catalog.spark.items())


def _pyiceberg(catalog: Catalog, tables: Mapping[tuple[str, str], str]) -> Iterator[str]:
    yield "from pyiceberg.catalog import load_catalog"
    yield ""
    yield f"{NAME} = load_catalog("
    yield f'    "{NAME}",'
    yield "    **{"
    yield from (f"        {name!r}: {value!r}," for name, value in catalog.pyiceberg.items())
    yield "    },"
    yield ")"
    for table in list(tables)[:1]:
        yield f"rows = {NAME}.load_table({table!r}).scan().to_arrow()"


def _duckdb(catalog: Catalog, tables: Mapping[tuple[str, str], str]) -> Iterator[str]:
    settings = settings_of(catalog)
    yield "-- DuckDB 1.5.3 or later"
    yield "INSTALL iceberg; LOAD iceberg;"
    if _is_on_s3(settings):
        yield f"CREATE OR REPLACE SECRET {NAME}_files ({', '.join(_duckdb_store(settings))});"
    if settings.get("type") == "rest" and "uri" in settings:
        yield from _duckdb_rest(settings)
        return
    yield "-- It reads no catalog but a REST one: these are the tables as they are now. Print them again after a run."
    for namespace in dict.fromkeys(namespace for namespace, _ in tables):
        yield f"CREATE SCHEMA IF NOT EXISTS {_name(namespace)};"
    for (namespace, table), place in tables.items():
        scan = f"SELECT * FROM iceberg_scan({_text(place.removeprefix('file://').removeprefix('file:'))})"
        yield f"CREATE OR REPLACE VIEW {_name(namespace)}.{_name(table)} AS {scan};"
    if not tables:
        yield "-- There are none yet: run the pipeline first."


def _duckdb_store(settings: Mapping[str, str]) -> Iterator[str]:
    yield from ("TYPE s3", "PROVIDER credential_chain")
    if region := settings.get("client.region"):
        yield f"REGION {_text(region)}"
    if endpoint := settings.get("s3.endpoint"):
        scheme, _, place = endpoint.partition("://")
        yield f"ENDPOINT {_text(place.rstrip('/'))}, URL_STYLE 'path', USE_SSL {str(scheme == 'https').lower()}"


def _duckdb_rest(settings: Mapping[str, str]) -> Iterator[str]:
    access = f"SECRET {NAME}_catalog"
    if token := settings.get("token"):
        yield f"CREATE OR REPLACE SECRET {NAME}_catalog (TYPE iceberg, TOKEN {_text(token)});"
    elif credential := settings.get("credential"):
        user, _, password = credential.rpartition(":")
        secret = [f"CLIENT_ID {_text(user)}", f"CLIENT_SECRET {_text(password)}"]
        if server := settings.get("oauth2-server-uri"):
            secret.append(f"OAUTH2_SERVER_URI {_text(server)}")
        yield f"CREATE OR REPLACE SECRET {NAME}_catalog (TYPE iceberg, {', '.join(secret)});"
    else:
        access = "AUTHORIZATION_TYPE 'none'"
    place = f"ENDPOINT {_text(settings['uri'])}"
    yield f"ATTACH {_text(settings['warehouse'])} AS {NAME} (TYPE iceberg, {place}, {access});"


def _trino(catalog: Catalog) -> Iterator[str]:
    settings, uri = settings_of(catalog), _uri(catalog)
    if not _is_on_s3(settings):
        yield "# Trino reads the lake where the warehouse is on s3://…; this one is not."
        return
    found = _trino_catalog(settings, uri)
    if found is None:
        yield "# Trino reads the lake where the pipeline's catalog is of type rest, hive or glue, or jdbc on PostgreSQL."
        return
    yield f"# etc/catalog/{NAME}.properties"
    yield "connector.name=iceberg"
    yield from (f"{name}={value}" for name, value in found.items())
    yield "fs.native-s3.enabled=true"
    for name, own in (("s3.endpoint", "s3.endpoint"), ("s3.region", "client.region")):
        if own in settings:
            yield f"{name}={settings[own]}"
    if "s3.path-style-access" in settings:
        yield f"s3.path-style-access={settings['s3.path-style-access']}"


def _trino_catalog(settings: Mapping[str, str], uri: str) -> dict[str, str] | None:
    kind = settings.get("type")
    if kind == "rest":
        made = {
            "iceberg.catalog.type": "rest",
            "iceberg.rest-catalog.uri": uri,
            "iceberg.rest-catalog.warehouse": settings["warehouse"],
        }
        signed = {name: settings[name] for name in ("token", "credential") if name in settings}
        if signed:
            made["iceberg.rest-catalog.security"] = "OAUTH2"
        if "oauth2-server-uri" in settings:
            made["iceberg.rest-catalog.oauth2.server-uri"] = settings["oauth2-server-uri"]
        return made | {f"iceberg.rest-catalog.oauth2.{name}": value for name, value in signed.items()}
    if kind == "hive":
        return {"iceberg.catalog.type": "hive_metastore", "hive.metastore.uri": uri}
    if kind == "glue":
        return {"iceberg.catalog.type": "glue"}
    if kind == "jdbc" and uri.startswith("jdbc:postgresql:"):
        names = {"jdbc.user": "connection-user", "jdbc.password": "connection-password"}
        return {
            "iceberg.catalog.type": "jdbc",
            "iceberg.jdbc-catalog.catalog-name": NAME,
            "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
            "iceberg.jdbc-catalog.connection-url": uri,
            **{f"iceberg.jdbc-catalog.{name}": settings[own] for own, name in names.items() if own in settings},
            "iceberg.jdbc-catalog.default-warehouse-dir": settings["warehouse"],
        }
    return None


def _flink(catalog: Catalog) -> Iterator[str]:
    settings = settings_of(catalog)
    kind = settings.pop("type", "")
    if kind in _FLINK_TYPES:
        settings = {"catalog-type": kind, **settings}
    elif kind in _FLINK_CLASSES:
        settings = {"catalog-impl": _FLINK_CLASSES[kind], **settings}
    drivers = " and the JDBC driver of the catalog's database" if kind == "jdbc" else ""
    yield f"-- needs iceberg-flink-runtime{drivers} in Flink's lib folder"
    yield f"CREATE CATALOG {NAME} WITH ("
    yield ",\n".join(f"  {_text(name)} = {_text(value)}" for name, value in {"type": "iceberg", **settings}.items())
    yield ");"


def settings_of(catalog: Catalog) -> dict[str, str]:
    """The catalog in Iceberg's own words, as Spark has it behind its prefix."""
    prefix = f"spark.sql.catalog.{NAME}."
    own = {name.removeprefix(prefix): value for name, value in catalog.spark.items() if name.startswith(prefix)}
    del own["cache-enabled"]
    return own


def _uri(catalog: Catalog) -> str:
    return settings_of(catalog).get("uri", "")


def _is_on_s3(settings: Mapping[str, str]) -> bool:
    """By the warehouse, or, where that is a name which a server knows, by what reads the files."""
    return settings["warehouse"].startswith(_S3) or settings.get("io-impl", "").endswith(".S3FileIO")


def _text(value: str) -> str:
    """A text of SQL."""
    return "'" + value.replace("'", "''") + "'"


def _name(value: str) -> str:
    """A name of SQL."""
    return '"' + value.replace('"', '""') + '"'
