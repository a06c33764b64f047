"""A real Kafka broker on loopback: one process that is broker and controller, its data in a temporary folder."""

import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from changeling.spark.java import find_java
from tests.brokers.broker_jars import broker_jars
from tests.brokers.certificate import Certificate, certificate

_QUICK_START = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_START_SECONDS = 60
_STOP_SECONDS = 10
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_CLUSTER = "4L6g3nShT-eMCtK--X86sw"
# Ends the broker also where this process is killed and no longer can: the pipe that it reads from is then closed.
_WATCH = 'cat > /dev/null; kill -9 "$1" 2> /dev/null; rm -rf "$2"'


@dataclass(frozen=True)
class User:
    """Who may log in at the listener with passwords."""

    name: str
    password: str

    def jaas(self) -> str:
        """The setting `sasl.jaas.config` of a client that logs in as this user."""
        return f'{_PLAIN} required username="{self.name}" password="{self.password}";'


class Broker:
    """Starts at once and is ready when made; `stop` ends it and removes its folder.

    `servers` needs nothing to log in. With a `user`, `password_servers` asks for that user by SASL/PLAIN; with `tls`,
    `tls_servers` speaks TLS with a certificate of its own, and `certificate` is what clients have to trust. All it writes lies
    in `folder`.
    """

    def __init__(self, *, user: User | None = None, tls: bool = False) -> None:
        self.user = user
        self.certificate: Certificate | None = None
        names = ["PLAINTEXT", "CONTROLLER", *(["SASL_PLAINTEXT"] if user else []), *(["SSL"] if tls else [])]
        self._ports = dict(zip(names, _free_ports(len(names)), strict=True))
        self.folder = Path(tempfile.mkdtemp(prefix="changeling-broker-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None
        with ExitStack() as on_failure:
            on_failure.callback(self.stop)
            if tls:
                self.certificate = certificate(self.folder)
            self._start()
            on_failure.pop_all()

    @property
    def servers(self) -> str:
        """The address without security."""
        return self._address("PLAINTEXT")

    @property
    def password_servers(self) -> str:
        """The address that asks for user and password."""
        return self._address("SASL_PLAINTEXT")

    @property
    def tls_servers(self) -> str:
        """The address that speaks TLS."""
        return self._address("SSL")

    @property
    def pid(self) -> int | None:
        """The id of its process while it runs."""
        return self._process.pid if self._process else None

    def stop(self) -> None:
        """Ends the process, at first kindly, and removes its data. May be called again."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.kill()
            watch.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _address(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    def _start(self) -> None:
        java = [str(find_java()[0]), *_QUICK_START, "-cp", str(broker_jars() / "*")]
        settings = self.folder / "server.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        log = self.folder / "output.txt"
        with log.open("wb") as output:
            subprocess.run(
                [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings), "--standalone"],
                check=True,
                stdout=output,
                stderr=output,
            )
            self._process = subprocess.Popen(
                [*java, "kafka.Kafka", str(settings)], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._watch = subprocess.Popen(
            ["sh", "-c", _WATCH, "watch", str(self._process.pid), str(self.folder)], stdin=subprocess.PIPE
        )
        self._wait(log)

    def _settings(self) -> dict[str, str]:
        listeners = ",".join(f"{name}://{self._address(name)}" for name in self._ports)
        advertised = ",".join(f"{name}://{self._address(name)}" for name in self._ports if name != "CONTROLLER")
        made = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": self._address("CONTROLLER"),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": listeners,
            "advertised.listeners": advertised,
            "listener.security.protocol.map": ",".join(
                f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}" for name in self._ports
            ),
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }
        if self.user is not None:
            made["sasl.enabled.mechanisms"] = "PLAIN"
            made["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = (
                f'{_PLAIN} required user_{self.user.name}="{self.user.password}";'
            )
        if self.certificate is not None:
            made["ssl.keystore.type"] = "PKCS12"
            made["ssl.keystore.location"] = str(self.certificate.keystore)
            made["ssl.keystore.password"] = self.certificate.password
        return made

    def _wait(self, log: Path) -> None:
        assert self._process is not None
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise RuntimeError(f"the broker ended at once:\n{log.read_text(errors='replace')}")
            if _listens(self._ports["PLAINTEXT"]):
                break
            time.sleep(0.05)
        asked = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        while time.monotonic() < until:
            with suppress(KafkaException):
                if asked.list_topics(timeout=1).brokers:
                    return
        raise RuntimeError(f"the broker did not answer in {_START_SECONDS} s:\n{log.read_text(errors='replace')}")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for taken in sockets:
            taken.bind(("127.0.0.1", 0))
        return [int(taken.getsockname()[1]) for taken in sockets]


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
