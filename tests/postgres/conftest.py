from tests.postgres.server import database, emptied, server, shared_database

__all__ = ["database", "emptied", "server", "shared_database"]
