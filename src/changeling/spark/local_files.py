"""Files of the local disk, as the driver's JVM writes them: without a process for each.

Hadoop's own file system runs `chmod` for every file that it creates, and again for its checksum, unless Hadoop's native library
is installed, which PySpark does not ship. A commit of Iceberg creates three files: a small run started 30 processes, which took a
quarter of all CPU time.
"""

from pathlib import Path

from pyspark import SparkContext

from changeling.spark.java_names import JavaNames

_SOURCE = Path(__file__).with_name("LocalFiles.java")
_CLASS = "changeling.LocalFiles"


def use_own(context: SparkContext) -> None:
    """From now on the driver's JVM opens local paths with our file system, which Spark's own compiler compiles."""
    java = JavaNames.of(context)
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(java.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE.read_text(encoding="utf-8"))
    settings = java.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())
    settings.setClassLoader(compiler.getClassLoader())
    settings.set("fs.file.impl", _CLASS)
    local = java.java.net.URI("file:///")
    # Hadoop keeps one instance for each scheme, whatever is configured later: the one of Spark's start makes room for ours.
    java.org.apache.hadoop.fs.FileSystem.get(local, settings).close()
    java.org.apache.hadoop.fs.FileSystem.get(local, settings)
