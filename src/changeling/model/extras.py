"""The parts of Changeling that `pip install changeling` leaves out, and the extras of the package that install them."""

from collections.abc import Iterator
from contextlib import contextmanager

from changeling.model.errors import ChangelingError

EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "prometheus_client": "spark",
    "psycopg": "postgres",
    "confluent_kafka": "kafka",
    "rich": "console",
}
"""By module."""
_PART_OF = {"py4j": "pyspark"}
"""Modules that come with another one, which users know."""


@contextmanager
def naming_extras() -> Iterator[None]:
    """Raises `ChangelingError` for a module of an extra that is not installed, with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        extra = EXTRAS.get(module)
        if extra is None:
            raise
        java = ", and Java 17 or later" if extra == "spark" else ""
        raise ChangelingError(
            f"this needs {_PART_OF.get(module, module)}, which is not installed: pip install 'changeling[{extra}]'{java}"
        ) from None
