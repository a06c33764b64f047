"""The change log: one Iceberg table of changes a pipeline, with its schemas, its rejects and the plans of its batches."""
