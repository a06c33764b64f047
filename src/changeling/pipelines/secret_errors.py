"""Errors as users see them: without secrets, and with what is wrong where Spark's JVM has ended."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from changeling.model.errors import ChangelingError
from changeling.pipelines.loading import Loaded


@contextmanager
def without_secrets(loaded: Loaded) -> Iterator[None]:
    """Removes the secrets of a pipeline from errors; those of the system become `ChangelingError`."""
    try:
        yield
    except ChangelingError as error:
        raise type(error)(loaded.redacted(str(error))) from None
    except Exception as error:
        _check_spark(error)
        if not isinstance(error, OSError):
            raise
        message = ": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None)
        raise ChangelingError(loaded.redacted(message)) from None


def _check_spark(error: Exception) -> None:
    """Raises `ChangelingError` if the cause is that Spark's JVM has ended."""
    if "changeling.spark.gateway" in sys.modules:
        from changeling.spark.errors import check_spark

        check_spark(error)
