"""What a run looks at before it starts Spark: all servers at the same time."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from changeling.iceberg.lock import held, last_holder
from changeling.model.errors import ChangelingError
from changeling.pipelines.listener import Listener
from changeling.pipelines.preflight import check_servers
from tests.pipelines.pipeline_files import HEAD, loaded

WAIT = 60


@pytest.fixture
def servers() -> Iterator[list[int]]:
    """Two servers that hang up on their first client once both have one, each with its port."""
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    both = threading.Barrier(2)

    def serve(server: socket.socket) -> None:
        client, _ = server.accept()
        with client:
            both.wait(WAIT)

    threads = [threading.Thread(target=serve, args=(server,)) for server in listening]
    for thread in threads:
        thread.start()
    yield [server.getsockname()[1] for server in listening]
    for server, thread in zip(listening, threads, strict=True):
        thread.join(WAIT)
        server.close()


class Warnings(Listener):
    def __init__(self) -> None:
        self.given: list[tuple[str, str]] = []

    def on_warning(self, source: str, text: str) -> None:
        self.given.append((source, text))


@pytest.mark.parametrize("once", [True, False])
def test_all_servers_are_looked_at_at_the_same_time(tmp_path: Path, servers: list[int], once: bool) -> None:
    urls = [f"postgresql://u:secret-1@127.0.0.1:{port}/shop?connect_timeout=30&sslmode=disable" for port in servers]
    found = loaded(
        tmp_path,
        f'{HEAD}  - {{name: pg, type: postgres, url: "{urls[0]}", tables: ["*"]}}\n'
        f'targets:\n  - {{name: pg, type: postgres, url: "{urls[1]}", tables: ["*"]}}\n',
    )
    warnings = Warnings()
    with held(tmp_path / "shop.lock", "shop", "changeling run") as lock:
        if once:
            with pytest.raises(ChangelingError, match=rf"^PostgreSQL at 127.0.0.1:{servers[0]}/shop: server closed"):
                check_servers(found, lock, warnings, once=True)
        else:
            check_servers(found, lock, warnings, once=False)
    # Only targets may be missing from a run with `once`.
    ports = servers[1:] if once else servers
    assert [text.partition(" closed")[0] for _, text in warnings.given] == [
        f"PostgreSQL at 127.0.0.1:{port}/shop: server" for port in ports
    ]
    holder = last_holder(tmp_path / "shop.lock")
    assert holder is not None
    assert set(holder.errors) == {"pg"}
