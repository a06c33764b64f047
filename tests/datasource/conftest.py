from tests.brokers.fixtures import broker, guarded_broker

__all__ = ["broker", "guarded_broker"]
