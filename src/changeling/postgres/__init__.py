"""PostgreSQL as others speak to it: connections, catalog, types, and the wire of logical replication. Knows no Spark."""
