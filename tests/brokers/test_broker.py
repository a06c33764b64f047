import os

import pytest

from tests.brokers.broker import Broker
from tests.brokers.topics import Topics


@pytest.mark.services
def test_a_broker_takes_records_and_leaves_nothing_behind() -> None:
    with Broker() as broker:
        topics = Topics(broker)
        topics.make("words")
        assert [record.offset for record in topics.send("words", b"a", b"b")] == [0, 1]
        pid = broker.pid
        assert pid is not None
        assert broker.folder.exists()
    assert not broker.folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
