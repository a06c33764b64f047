"""The seeds' own records, read and written in each other's dialects: every command is shown with what it prints."""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHANGELING = Path(sys.executable).with_name("changeling")


def show(title: str, command: str, folder: Path, expect: int = 0) -> None:
    """Runs a command as a user would, and shows it with its output; a surprise ends the demo."""
    print(f"\n\033[1m{title}\033[0m\n\033[36m$ {command}\033[0m", flush=True)
    words = [str(CHANGELING) if word == "changeling" else word for word in shlex.split(command)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    for line in (done.stdout + done.stderr).splitlines():
        print("  " + (line if len(line) <= 400 else line[:397] + "..."))
    if done.returncode != expect:
        sys.exit(f"expected exit code {expect}, got {done.returncode}")
    if expect:
        print(f"  (exit code {expect})")


def main() -> None:
    """Shows reading, writing, a refusal, what it takes to allow it, and a bad record."""
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        for path in sorted((HERE / "records").iterdir()):
            (folder / path.name).write_bytes(path.read_bytes())
        show("XTDB's users and orders, for people", "changeling decode xtdb.jsonl --from xtdb --pretty", folder)
        show(
            "YDB's changefeed, as changes: absent is not null, and every digit stays",
            "changeling decode ydb.jsonl --from ydb-json --table shop --key id --limit 2",
            folder,
        )
        show(
            "XTDB's events as Arcion's files",
            "changeling convert xtdb.jsonl --from xtdb --to arcion-json -O arcion.jsonl",
            folder,
        )
        show("... one of them", "head -n 1 arcion.jsonl", folder)
        show(
            "... and back: the same eight changes",
            "changeling decode arcion.jsonl --from arcion-json --pretty --limit 1",
            folder,
        )
        show(
            "A YDB changefeed has no place for XTDB's transactions: nothing is written",
            "changeling convert xtdb.jsonl --from xtdb --to ydb-json -O ydb-out.jsonl",
            folder,
            expect=4,
        )
        show(
            "... unless that is what you want",
            "changeling convert xtdb.jsonl --from xtdb --to ydb-json -O ydb-out.jsonl --drop transaction,commit_time,position,table",
            folder,
        )
        show("... one of them", "head -n 2 ydb-out.jsonl", folder)
        show(
            "A bad record stops nothing, and is kept",
            "changeling convert broken.jsonl --from xtdb --to arcion-json -O good.jsonl",
            folder,
            expect=3,
        )
        show("... with its reason, its place and its bytes", "cat rejects.jsonl", folder)


if __name__ == "__main__":
    main()
