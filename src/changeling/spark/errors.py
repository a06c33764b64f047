"""Translates what Spark raises into the one sentence that a user needs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from changeling.model.errors import ChangelingError
from changeling.spark.gateway import how_it_ended

_BROKEN = (Py4JError, ConnectionError, EOFError)
"""What the first call raises after the JVM has ended."""
_SOON = 2.0
"""Seconds to wait for a JVM to end after its connection broke."""
_OURS = re.compile(r"^changeling\.[\w.]+Error: (.*?)(?=\n\s*(?:at |\.\.\.|$)|\n\n|\Z)", re.MULTILINE | re.DOTALL)
_LAST = re.compile(r"^([\w.]*(?:Error|Exception)): (.*)$", re.MULTILINE)


class SparkEnded(ChangelingError):
    """The JVM is gone: whatever failed cannot be tried again in this process."""


def check_spark(error: BaseException | None = None) -> None:
    """Raises `SparkEnded` if the JVM that this process started is gone; `error` is what revealed it."""
    is_broken = isinstance(error, _BROKEN) and not isinstance(error, Py4JJavaError)
    if ended := how_it_ended(_SOON if is_broken else 0.0):
        raise SparkEnded(ended) from None


def translate_error(error: Exception) -> ChangelingError:
    """Our own message where one of our errors ended a task, else the innermost one of Python or of the JVM.

    If the JVM is gone, the result is `SparkEnded`, whatever the error said.
    """
    try:
        check_spark(error)
    except SparkEnded as ended:
        return ended
    text = _text(error)
    if ours := _OURS.search(text):
        return ChangelingError(ours[1].strip())
    if lines := _LAST.findall(text):
        kind, message = lines[-1]
        return ChangelingError(f"{kind.rpartition('.')[2]}: {message.strip()}")
    return ChangelingError(text.strip().partition("\n")[0])


def _text(error: Exception) -> str:
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return f"{cause.getClass().getName()}: {cause.getMessage()}"
    return str(error)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raises what Spark raises in the block as `translate_error` gives it."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise translate_error(error) from error
    except (ConnectionError, EOFError) as error:
        check_spark(error)
        raise


SPARK_ERRORS = (Py4JError, PySparkException)
"""The kinds of errors that come from Spark."""
