"""A shop in a real PostgreSQL, captured while people use it: equal to the source, as it was before a mistake, in three dialects."""

import os
import shutil
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from rich.console import Console

import changeling
from changeling.cli import main as changeling_main
from changeling.cli.run_progress import Shown
from demo.embedded_postgres import EmbeddedPostgres
from demo.traffic import Done, fill, people

SECONDS_OF_TRAFFIC = 6.0
PIPELINE = """\
name: shop
warehouse: ./lake
sources:
  - {name: pg, type: postgres, url: "${PG_URL}", tables: ["public.*"]}
spark: {spark.sql.shuffle.partitions: 2, spark.ui.enabled: false}
"""
console = Console(highlight=False)


def title(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def command(line: str, expect: int = 0) -> None:
    """Runs a command as a user would; an unexpected exit code ends the demo."""
    import shlex

    console.print(f"[cyan]$ {line}[/cyan]", markup=True, soft_wrap=True)
    code = changeling_main(shlex.split(line)[1:])
    if code != expect:
        sys.exit(f"expected exit code {expect}, got {code}")


def live(pipeline: "changeling.Pipeline", url: str) -> Done:
    """Runs the pipeline while people use the shop."""
    stop, leave, done = threading.Event(), threading.Event(), Done()
    crowd = threading.Thread(target=people, args=(url, leave, done))

    def traffic() -> None:
        _wait_for_batches(pipeline, 1)
        crowd.start()
        time.sleep(SECONDS_OF_TRAFFIC)
        leave.set()
        crowd.join()
        _wait_for_batches(pipeline, 3)
        stop.set()

    console.print("[cyan]$ changeling run shop.yaml[/cyan]")
    people_come = threading.Thread(target=traffic)
    people_come.start()
    with Shown(pipeline.name) as shown:
        pipeline.run(listener=shown, stop=stop)
    people_come.join()
    return done


def _wait_for_batches(pipeline: "changeling.Pipeline", count: int) -> None:
    while not any(row["kind"] == "source" and row["batch"] >= count for row in pipeline.status()):
        time.sleep(0.3)


def server_time(url: str) -> str:
    """The server's clock, as --as-of takes it."""
    with psycopg.connect(url) as connection:
        (found,) = connection.execute("SELECT clock_timestamp()").fetchone() or (datetime.now(UTC),)
    time.sleep(0.05)
    return str(found.astimezone(UTC).isoformat().replace("+00:00", "Z"))


def show(url: str) -> None:
    """The whole demo, in the current folder."""
    title("A shop in PostgreSQL, with people in it: captured while they place and change orders, and a column is added")
    fill(url)
    Path("shop.yaml").write_text(PIPELINE)
    pipeline = changeling.Pipeline.load("shop.yaml")
    done = live(pipeline, url)
    console.print(f"  {done.transactions:,} transactions were committed during the run")

    title("Is the replica equal to the database, row for row?")
    command("changeling verify")

    title("Somebody forgets a WHERE")
    before = server_time(url)
    with psycopg.connect(url, autocommit=True) as connection:
        console.print("[magenta]postgres=# UPDATE customers SET email = 'oops@example.com';[/magenta]")
        connection.execute("UPDATE customers SET email = 'oops@example.com'")
    command("changeling run shop.yaml --once")
    command("changeling replica public.customers --limit 3")
    title("... and what it was before")
    command(f"changeling replica public.customers --as-of {before} --limit 3")

    title("Every change of one row: customer 42 became 500001")
    command("""changeling history public.customers --key '{"id": 500001}'""")

    title("The same change in three dialects")
    changes = pipeline.changes("public.customers", last=1)
    allowed = {"drop": "all"}
    for dialect in ("debezium-json", "ydb-json", "dataworks"):
        records, _ = changeling.encode(changes, dialect, **allowed)
        console.print(f"[cyan]>>> changeling.encode(pipeline.changes('public.customers', last=1), {dialect!r})[/cyan]")
        for value in records.column("value").to_pylist():
            text = value.decode()
            console.print("  " + (text if len(text) < 600 else text[:597] + "..."), markup=False, soft_wrap=True)

    title("A changefeed: from now on every change of the customers is published, with the row before and after")
    command(
        'changeling sql "ALTER TABLE public.customers ADD CHANGEFEED customers_feed '
        "WITH (FORMAT = 'JSON', MODE = 'NEW_AND_OLD_IMAGES', VIRTUAL_TIMESTAMPS = TRUE)\""
    )
    with psycopg.connect(url, autocommit=True) as connection:
        console.print("[magenta]postgres=# UPDATE customers SET email = 'ada@example.com' WHERE id = 7;[/magenta]")
        connection.execute("UPDATE customers SET email = 'ada@example.com' WHERE id = 7")
        console.print("[magenta]postgres=# DELETE FROM customers WHERE id = 500001;[/magenta]")
        connection.execute("DELETE FROM customers WHERE id = 500001")
    command("changeling run shop.yaml --once")
    command("changeling feed read customers_feed --json")


def main() -> None:
    """Creates a folder for it and cleans up; KEEP=1 leaves all of it running."""
    began = time.monotonic()
    keep = os.environ.get("KEEP", "") not in ("", "0")
    folder = Path(tempfile.mkdtemp(prefix="changeling-demo-"))
    server = EmbeddedPostgres(folder / "postgres")
    try:
        server.start()
        os.environ["PG_URL"] = server.url
        (folder / "shop").mkdir()
        os.chdir(folder / "shop")
        show(server.url)
    finally:
        if keep:
            console.print(f"\nLeft running: PG_URL={server.url}, the pipeline is {folder / 'shop' / 'shop.yaml'}")
            console.print(
                "When you are done: changeling remove --yes, stop the server (Ctrl-C its process), delete the folder"
            )
        else:
            os.chdir("/")
            server.remove()
            shutil.rmtree(folder, ignore_errors=True)
    if not keep:
        console.print(f"\n[green]Done in {time.monotonic() - began:.0f} s[/green], nothing is left running")
        console.print("make demo KEEP=1 leaves the server and the pipeline, to try commands on them")


if __name__ == "__main__":
    main()
