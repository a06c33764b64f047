"""`changeling catalog --serve`: any client of the REST protocol reads the lake with the token, and nobody writes to it."""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, UnauthorizedError

from tests.cli.conftest import COMMAND, Run
from tests.cli.test_catalog import ROWS, filled


@contextmanager
def served(file: Path, *arguments: str, **environment: str) -> Iterator[dict[str, str]]:
    """The settings by engine that the command prints before it serves; it ends well when it is asked to."""
    command = [str(COMMAND), "catalog", "--serve", "--port", "0", "--json", "--pipeline", str(file), *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)
            output = process.stderr.read()
    assert process.returncode == 0, output
    assert "changeling: serves shop at http://127.0.0.1:" in output


def settings_of(text: str) -> dict[str, str]:
    """What the snippet for PyIceberg gives to `load_catalog`."""
    found: dict[str, str] = {}
    exec(
        text.replace("from pyiceberg.catalog import load_catalog", "").partition("rows =")[0],
        {"load_catalog": lambda _, **given: found.update(given)},
    )
    return found


def asked(address: str, token: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    request = urllib.request.Request(
        address,
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_pyiceberg_reads_what_is_served(tmp_path: Path) -> None:
    file = filled(tmp_path / "shop")
    with served(file) as found:
        names: dict[str, Any] = {}
        exec(found["pyiceberg"], names)
        assert names["rows"].to_pylist() == ROWS
        names["lake"].close()
        settings = settings_of(found["pyiceberg"])
        assert settings["type"] == "rest"
        lake = load_catalog("lake", **settings)
        assert lake.list_namespaces() == [("shop_replica",)]
        assert lake.list_tables("shop_replica") == [("shop_replica", "o'users")]
        assert lake.load_table("shop_replica.o'users").scan().to_arrow().to_pylist() == ROWS
        assert lake.table_exists("shop_replica.o'users")
        assert not lake.table_exists("shop_replica.users")
        with pytest.raises(NoSuchTableError, match=r"there is no table shop_replica\.users"):
            lake.load_table("shop_replica.users")
        with pytest.raises(NoSuchNamespaceError, match="there is no namespace 'shop'"):
            lake.list_tables("shop")
        with pytest.raises(UnauthorizedError, match="the token is missing or wrong"):
            load_catalog("lake", **{**settings, "token": "guessed"})
        # What is written meanwhile is seen.
        own = load_catalog("lake", uri=f"sqlite:///{tmp_path}/shop/lake/catalog.db", warehouse=f"{tmp_path}/shop/lake")
        own.load_table("shop_replica.o'users").append(pa.Table.from_pylist(ROWS))
        own.close()
        assert lake.load_table("shop_replica.o'users").scan().to_arrow().to_pylist() == ROWS * 2
        lake.close()


def test_nothing_can_be_written(tmp_path: Path) -> None:
    file = filled(tmp_path / "shop")
    before = {path: path.read_bytes() for path in (tmp_path / "shop").rglob("*") if path.is_file()}
    refused = {
        "message": "this catalog is read-only: only the pipeline writes its tables",
        "type": "ForbiddenException",
        "code": 403,
    }
    with served(file, CHANGELING_TOKEN="a given one") as found:
        settings = settings_of(found["pyiceberg"])
        assert settings["token"] == "TOKEN"
        tables = f"{settings['uri']}/v1/namespaces/shop_replica/tables"
        for method, address, body in (
            ("POST", f"{settings['uri']}/v1/namespaces", {"namespace": ["new"]}),
            ("POST", tables, {"name": "new"}),
            ("POST", f"{tables}/o%27users", {"requirements": [], "updates": []}),
            ("DELETE", f"{tables}/o%27users?purgeRequested=true", None),
        ):
            assert asked(address, "a given one", method, body) == (403, {"error": refused})
        assert asked(tables, "another", "POST", {})[0] == 401
        assert asked(f"{settings['uri']}/v1/views", "a given one")[1]["error"]["type"] == "NotFoundException"
        assert asked(f"{tables}/o%27users", "a given one", "HEAD") == (200, None)
        lake = load_catalog("lake", **{**settings, "token": "a given one"})
        with pytest.raises(NotImplementedError, match="does not support endpoint: POST"):
            lake.create_namespace("new")
        lake.close()
    assert before == {path: path.read_bytes() for path in (tmp_path / "shop").rglob("*") if path.is_file()}


def test_a_wrong_call_says_the_right_one(run: Run, tmp_path: Path) -> None:
    file = filled(tmp_path / "shop")
    done = run("catalog", "--port", "1", "--pipeline", str(file))
    assert (done.returncode, done.stderr) == (2, "changeling: --port is for a catalog that is served: add --serve\n")
    done = run("catalog", "--serve", "--port", "70000", "--pipeline", str(file))
    assert (done.returncode, done.stderr) == (2, "changeling: --port 70000: ports are numbers from 0 to 65535\n")
    with served(file) as found:
        port = settings_of(found["pyiceberg"])["uri"].rpartition(":")[2]
        done = run("catalog", "--serve", "--port", port, "--pipeline", str(file))
    assert done.returncode == 1
    assert done.stderr == f"changeling: cannot listen on 127.0.0.1:{port}: Address already in use\n"
