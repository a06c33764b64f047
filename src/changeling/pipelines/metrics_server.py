"""The HTTP side of a run: `/metrics` for Prometheus, `/healthz` and `/readyz` for whoever supervises it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6

from prometheus_client import CONTENT_TYPE_LATEST

from changeling.model.errors import UsageError
from changeling.pipelines.run_metrics import RunMetrics

LOOPBACK = "127.0.0.1"


@contextmanager
def served(metrics: RunMetrics, place: str) -> Iterator[str]:
    """Serves the metrics at PORT of the loopback address, or at HOST:PORT; yields the address. Port 0 is any that is free."""
    host, port = _place(place)
    try:
        server = _Server((host, port), metrics)
    except OSError as error:
        raise UsageError(f"--metrics {place}: {error.strerror or error}; choose another port") from None
    thread = threading.Thread(target=server.serve_forever, name="changeling-metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise UsageError(f"--metrics {text}: write a port, such as 9108, or HOST:PORT")
    return host.strip("[]") or LOOPBACK, int(port)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, place: tuple[str, int], metrics: RunMetrics) -> None:
        self.metrics = metrics
        if ":" in place[0]:
            self.address_family = AF_INET6
        super().__init__(place, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "changeling"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Answers one request."""
        metrics = self.server.metrics
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, CONTENT_TYPE_LATEST, metrics.text())
        elif path == "/healthz":
            self._say(200, {"status": "ok"})
        elif path == "/readyz":
            failing = metrics.failing
            if not metrics.is_reading:
                self._say(503, {"status": "starting"})
            else:
                self._say(503 if failing else 200, {"status": "failing" if failing else "ready", "failing": failing})
        else:
            self._say(404, {"status": "there is only /metrics, /healthz and /readyz"})

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are not logged."""

    def _say(self, code: int, answer: dict[str, object]) -> None:
        self._answer(code, "application/json", json.dumps(answer).encode() + b"\n")

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
