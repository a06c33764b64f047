"""What other engines need to read the lake of a pipeline: settings, or a REST catalog that serves it. Needs no Spark."""

from dataclasses import dataclass

from changeling.feeds.topic import namespace_of
from changeling.iceberg.catalog import Catalog, catalog
from changeling.iceberg.engine_settings import engine_settings, settings_of
from changeling.iceberg.reader import Tables
from changeling.iceberg.rest_server import RestServer
from changeling.model.errors import ChangelingError
from changeling.pipelines.lakehouse import catalog_of, tables_of
from changeling.pipelines.loading import LoadedPipeline
from changeling.spark import jars

_OF_THE_STORE = ("s3.endpoint", "s3.path-style-access", "s3.region", "client.region")
"""Settings that engines need to read files of the warehouse, and that are no secrets."""


def catalog_settings(loaded: LoadedPipeline) -> dict[str, str]:
    """By engine, as text; passwords are masked."""
    served = loaded.definition.catalog.get("type") == "rest"
    try:
        # Engines ask a REST catalog themselves: it need not be reachable from here.
        places = {} if served else _metadata_files(tables_of(loaded), loaded.definition.name)
    except ChangelingError as error:
        raise type(error)(loaded.redacted(str(error))) from None
    return _settings(loaded, catalog_of(loaded), places)


@dataclass(frozen=True)
class Served:
    """A REST catalog over that of a pipeline, ready to serve."""

    server: RestServer
    settings: dict[str, str]
    """By engine, as `catalog_settings` gives them."""


def served_catalog(loaded: LoadedPipeline, host: str, port: int, token: str, *, shown: str) -> Served:
    """The server, which listens already; the settings have `shown` in the place of the token."""
    own = settings_of(catalog_of(loaded))
    store = {name: own[name] for name in _OF_THE_STORE if name in own}
    tables = tables_of(loaded)
    try:
        server = RestServer(host, port, tables, token, store)
    except OSError as error:
        raise ChangelingError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    rest = catalog(loaded.warehouse, loaded.folder, {"type": "rest", "uri": server.uri, "token": shown})
    return Served(server, _settings(loaded, rest, _metadata_files(tables, loaded.definition.name)))


def _settings(loaded: LoadedPipeline, catalog: Catalog, tables: dict[tuple[str, str], str]) -> dict[str, str]:
    stored_on_s3 = loaded.warehouse.startswith(("s3://", "s3a://"))
    found = engine_settings(catalog, tables, (*jars.ICEBERG, *(jars.S3 if stored_on_s3 else ())))
    return {engine: loaded.redacted(text) for engine, text in found.items()}


def _metadata_files(tables: Tables, pipeline: str) -> dict[tuple[str, str], str]:
    """Those of the replicas, the feeds and the log, by namespace and name."""
    found = {}
    for namespace in (f"{pipeline}_replica", namespace_of(pipeline), pipeline):
        own = tables.in_namespace(namespace)
        for name in sorted(own.names()):
            table = own.load(name)
            if table is not None:
                found[namespace, name] = table.metadata_location
    return found
