"""A warehouse that was moved or copied: its paths are corrected for all pipelines in it. Needs no Spark."""

from changeling.iceberg.lock import held
from changeling.iceberg.relocation import Relocated
from changeling.iceberg.relocation import relocate as correct_paths
from changeling.pipelines.lakehouse import catalog_of, lock_file
from changeling.pipelines.loading import Loaded


def relocate(loaded: Loaded) -> Relocated:
    """Corrects the paths of the pipeline's warehouse, where its file says that it is; see `iceberg.relocation`."""
    with held(lock_file(loaded), loaded.definition.name, "changeling relocate"):
        return correct_paths(catalog_of(loaded))
