"""Where records come from: files and Kafka topics, planned batch by batch and read in Spark's tasks."""
