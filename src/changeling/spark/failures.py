"""What Spark raises, as the one sentence that a user needs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from changeling.model.errors import ChangelingError

_OURS = re.compile(r"^changeling\.[\w.]+Error: (.*?)(?=\n\s*(?:at |\.\.\.|$)|\n\n|\Z)", re.MULTILINE | re.DOTALL)
_LAST = re.compile(r"^([\w.]*(?:Error|Exception)): (.*)$", re.MULTILINE)


def told(error: Exception) -> ChangelingError:
    """Our own message where one of our errors ended a task, else the innermost one of Python or of the JVM."""
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
def in_one_sentence() -> Iterator[None]:
    """What Spark raises meanwhile is told so."""
    try:
        yield
    except SPARKS as error:
        raise told(error) from error


SPARKS = (Py4JError, PySparkException)
"""The kinds of errors that come from Spark."""
