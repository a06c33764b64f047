"""A read-only Iceberg REST catalog over any other one: engines that know the protocol read the lake with an address and a token.

The metadata of a table is served as its file has it, byte for byte. Engines read the data files themselves: they must be able to.
"""

import gzip
import hmac
import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from changeling.iceberg.parquet_files import filesystem
from changeling.iceberg.reader import Tables
from changeling.model.errors import ChangelingError

_LOG = logging.getLogger(__name__)
_ENDPOINTS = [
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
]
"""Clients that look at this list ask for nothing else, and refuse to write by themselves."""
_MAX_DISCARDED = 1024 * 1024
_GZIP = b"\x1f\x8b"


class _Failure(Exception):
    """An answer of the protocol's error model."""

    def __init__(self, status: HTTPStatus, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class RestServer(ThreadingHTTPServer):
    """Serves the tables of a catalog to whoever has the token; port 0 is a free one.

    `store` are settings that engines need for the files, such as the endpoint of an object store; never credentials.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, tables: Tables, token: str, store: Mapping[str, str]) -> None:
        self._tables, self._token, self._store = tables, token, dict(store)
        super().__init__((host, port), _Handler)

    @property
    def uri(self) -> str:
        """Its address, as engines take it."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def allows(self, authorization: str | None) -> bool:
        """Whether a request with this header may see anything."""
        scheme, _, given = (authorization or "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode())

    def answer(self, path: str) -> bytes:
        """What there is at a path; raises `_Failure` where there is nothing."""
        split = urlsplit(path)
        match [unquote(part) for part in split.path.strip("/").split("/")]:
            case ["v1", "config"]:
                # The token does not expire: engines need not, and could not, exchange it for another.
                overrides = {"token-refresh-enabled": "false"}
                return _json({"defaults": self._store, "overrides": overrides, "endpoints": _ENDPOINTS})
            case ["v1", "namespaces"]:
                nested = "parent" in parse_qs(split.query)
                return _json({"namespaces": [] if nested else [[name] for name in self._tables.namespaces()]})
            case ["v1", "namespaces", namespace]:
                self._namespace(namespace)
                return _json({"namespace": [namespace], "properties": {}})
            case ["v1", "namespaces", namespace, "tables"]:
                names = sorted(self._namespace(namespace).names())
                return _json({"identifiers": [{"namespace": [namespace], "name": name} for name in names]})
            case ["v1", "namespaces", namespace, "tables", table]:
                return self._table(namespace, table)
        raise _Failure(HTTPStatus.NOT_FOUND, "NotFoundException", f"this catalog has nothing at {split.path}")

    def _namespace(self, name: str) -> Tables:
        if name not in self._tables.namespaces():
            raise _Failure(HTTPStatus.NOT_FOUND, "NoSuchNamespaceException", f"there is no namespace {name!r}")
        return self._tables.in_namespace(name)

    def _table(self, namespace: str, name: str) -> bytes:
        table = self._namespace(namespace).load(name)
        if table is None:
            raise _Failure(HTTPStatus.NOT_FOUND, "NoSuchTableException", f"there is no table {namespace}.{name}")
        store, place = filesystem(table.metadata_location)
        with store.open_input_stream(place, compression=None) as file:
            metadata = file.read()
        if metadata.startswith(_GZIP):
            metadata = gzip.decompress(metadata)
        found = _json({"metadata-location": table.metadata_location, "config": self._store})
        return b'%s,"metadata":%s}' % (found[:-1], metadata)


class _Handler(BaseHTTPRequestHandler):
    server: RestServer
    protocol_version = "HTTP/1.1"
    timeout = 60
    """Seconds after which an idle connection is closed."""

    def do_GET(self) -> None:
        self._discard_body()
        try:
            self._check_token()
            self._send(HTTPStatus.OK, self.server.answer(self.path))
        except _Failure as failure:
            self._fail(failure)
        except ChangelingError as error:
            _LOG.warning("%s: %s", self.path, error)
            self._fail(_Failure(HTTPStatus.INTERNAL_SERVER_ERROR, "RuntimeException", str(error)))

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._discard_body()
        try:
            self._check_token()
        except _Failure as failure:
            self._fail(failure)
            return
        why = "this catalog is read-only: only the pipeline writes its tables"
        self._fail(_Failure(HTTPStatus.FORBIDDEN, "ForbiddenException", why))

    do_PUT = do_DELETE = do_PATCH = do_POST

    def _check_token(self) -> None:
        if not self.server.allows(self.headers.get("Authorization")):
            why = "the token is missing or wrong: it is the one that `changeling catalog --serve` was started with"
            raise _Failure(HTTPStatus.UNAUTHORIZED, "NotAuthorizedException", why)

    def _fail(self, failure: _Failure) -> None:
        error = {"message": str(failure), "type": failure.kind, "code": int(failure.status)}
        self._send(failure.status, _json({"error": error}))

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _discard_body(self) -> None:
        """Reads what a request brings along, so that the connection can be used again; too much of it closes the connection."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdecimal() or int(length) > _MAX_DISCARDED:
            self.close_connection = True
        else:
            self.rfile.read(int(length))

    def log_message(self, format: str, *given: Any) -> None:
        _LOG.debug(format, *given)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
