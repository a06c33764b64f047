"""Iceberg: the catalog, tables through Spark and without it, Parquet files, commits, and the lock."""
