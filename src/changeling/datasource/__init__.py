"""Changeling as a data source of Spark: `spark.read.format("changeling")` and `readStream`, for files and Kafka."""
