"""Translates what Spark raises into the one sentence that a user needs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from changeling.model.errors import ChangelingError
from changeling.spark.gateway import how_it_ended

_BROKEN = (Py4JError, ConnectionError, EOFError)
"""What the first call raises after the JVM has ended."""
_SOON = 2.0
"""Seconds to wait for a JVM to end after its connection broke."""
_CONFLICTS = (
    "org.apache.iceberg.exceptions.ValidationException",
    "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.NotFoundException",
)
# What is raised in a Python worker of Spark arrives as the text of its traceback, without its type.
_OURS = re.compile(r"^changeling\.[\w.]+Error: (.*?)(?=\n\s*(?:at |\.\.\.|$)|\n\n|\Z)", re.MULTILINE | re.DOTALL)
_LAST = re.compile(r"^([\w.]*(?:Error|Exception)): (.*)$", re.MULTILINE)


class SparkEnded(ChangelingError):
    """The JVM is gone: whatever failed cannot be tried again in this process."""


class Conflict(ChangelingError):
    """Another writer of the same table was quicker: worth another try."""


def check_spark(error: BaseException | None = None) -> None:
    """Raises `SparkEnded` if the JVM that this process started is gone; `error` is what revealed it."""
    is_broken = isinstance(error, _BROKEN) and not isinstance(error, Py4JJavaError)
    if ended := how_it_ended(_SOON if is_broken else 0.0):
        raise SparkEnded(ended) from None


def translate_error(error: Exception) -> ChangelingError:
    """Our own message where one of our errors ended a task, else the innermost one of Python or of the JVM.

    If the JVM is gone, the result is `SparkEnded`, whatever the error said; where writers conflict, it is a `Conflict`.
    """
    try:
        check_spark(error)
    except SparkEnded as ended:
        return ended
    kind = Conflict if any(_is_conflict(thrown) for thrown in causes(error)) else ChangelingError
    return kind(_message(_text(error)))


def _message(text: str) -> str:
    if ours := _OURS.search(text):
        return ours[1].strip()
    if lines := _LAST.findall(text):
        name, message = lines[-1]
        return f"{name.rpartition('.')[2]}: {message.strip()}"
    return text.strip().partition("\n")[0]


def causes(error: BaseException) -> list[Any]:
    """The exception of Java that an error stands for, then what caused it, the innermost last; none where it is Python's."""
    thrown = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    found = []
    while thrown is not None:
        found.append(thrown)
        thrown = thrown.getCause()
    return found


def is_instance(thrown: Any, kind: str) -> bool:
    """Whether an exception of Java is of a class, or of one derived from it."""
    return bool(JavaClass(kind, thrown._gateway_client)._java_lang_class.isInstance(thrown))


def _is_conflict(thrown: Any) -> bool:
    return any(is_instance(thrown, kind) for kind in _CONFLICTS)


def _text(error: Exception) -> str:
    if isinstance(error, Py4JJavaError):
        innermost = causes(error)[-1]
        return f"{innermost.getClass().getName()}: {innermost.getMessage()}"
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
