"""What other engines need to read the lake of a pipeline. Needs no Spark."""

from changeling.iceberg.engine_settings import engine_settings
from changeling.iceberg.reader import Tables
from changeling.model.errors import ChangelingError
from changeling.pipelines.lakehouse import catalog_of, tables_of
from changeling.pipelines.loading import Loaded


def catalog_settings(loaded: Loaded) -> dict[str, str]:
    """By engine, as text; passwords are masked."""
    from changeling.spark import jars

    stored_on_s3 = loaded.warehouse.startswith(("s3://", "s3a://"))
    served = loaded.definition.catalog.get("type") == "rest"
    try:
        # Engines ask a REST catalog themselves: it need not be reachable from here.
        places = {} if served else _metadata_files(tables_of(loaded), loaded.definition.name)
    except ChangelingError as error:
        raise type(error)(loaded.redacted(str(error))) from None
    found = engine_settings(catalog_of(loaded), places, (*jars.ICEBERG, *(jars.S3 if stored_on_s3 else ())))
    return {engine: loaded.redacted(text) for engine, text in found.items()}


def _metadata_files(tables: Tables, pipeline: str) -> dict[tuple[str, str], str]:
    """Those of the replicas, then those of the log, by namespace and name."""
    found = {}
    for namespace in (f"{pipeline}_replica", pipeline):
        own = tables.in_namespace(namespace)
        for name in sorted(own.names()):
            table = own.load(name)
            if table is not None:
                found[namespace, name] = table.metadata_location
    return found
