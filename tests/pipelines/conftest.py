from tests.postgres.server import database, server

__all__ = ["database", "server"]
