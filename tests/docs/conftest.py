from tests.postgres.server import server

__all__ = ["server"]
