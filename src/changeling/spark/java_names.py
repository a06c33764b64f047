"""Java's classes by name. The JVM is asked nothing before one is used."""

from typing import Any

from py4j.java_gateway import GatewayClient, JavaClass
from pyspark import SparkContext


class JavaNames:
    """A package of Java, whose attributes are packages (in lower case) and classes.

    Py4j's own view searches all jars for a class of every part of a name, each time: `jvm.org.apache.iceberg.SchemaParser` are
    three searches in vain.
    """

    def __init__(self, client: GatewayClient, package: str = "") -> None:
        self._client = client
        self._package = package

    @staticmethod
    def of(context: SparkContext) -> "JavaNames":
        """All packages that the JVM of a context knows."""
        gateway: Any = context._gateway
        return JavaNames(gateway._gateway_client)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        path = f"{self._package}.{name}" if self._package else name
        found = JavaClass(path, self._client) if name[0].isupper() else JavaNames(self._client, path)
        setattr(self, name, found)
        return found
