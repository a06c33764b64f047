from tests.brokers.fixtures import broker, guarded_broker
from tests.postgres.server import database, server

__all__ = ["broker", "database", "guarded_broker", "server"]
