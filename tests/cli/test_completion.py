"""The scripts of `changeling completion`; that of bash is run."""

import subprocess
from pathlib import Path

import pytest

from changeling.formats import registry
from tests.cli.conftest import Run

_COMPLETE = """
source ./script
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
compopt() { echo "option $*" >&2; }
_changeling
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(folder: Path, *words: str) -> tuple[list[str], bool]:
    """What bash proposes for the last word, and whether files are among it."""
    done = subprocess.run(
        ["bash", "-c", _COMPLETE, "bash", "changeling", *words], cwd=folder, capture_output=True, text=True, check=True
    )
    assert set(done.stderr.splitlines()) <= {"option +o default", "option -o default"}
    return done.stdout.split(), "option -o default" in done.stderr


def test_bash_completes_verbs_flags_and_values(run: Run, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(run("completion", "bash").stdout)
    assert completed(tmp_path, "dec") == (["decode"], False)
    assert completed(tmp_path, "feed", "") == (["create", "alter", "drop", "list", "show", "read"], False)
    assert completed(tmp_path, "decode", "a.jsonl", "--from", "") == (registry.names(), False)
    assert completed(tmp_path, "convert", "a", "--to", "ydb-j") == (["ydb-json"], False)
    assert completed(tmp_path, "decode", "a", "--car") == (["--carrier"], False)
    assert completed(tmp_path, "decode", "a", "--carrier", "") == (["plain", "kcat"], False)
    assert completed(tmp_path, "feed", "create", "f", "--ta") == (["--table"], False)
    assert completed(tmp_path, "decode", "a") == ([], True)
    assert completed(tmp_path, "status", "--pipeline", "") == ([], True)
    assert completed(tmp_path, "decode", "a", "--limit", "") == ([], False)
    # What looks like a verb but stands elsewhere is none.
    assert completed(tmp_path, "decode", "run", "--fr") == (["--from"], False)


def test_bash_takes_the_script_up(run: Run, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(run("completion", "bash").stdout)
    done = subprocess.run(
        ["bash", "-c", "source ./script && complete -p changeling"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("complete -o default -F _changeling changeling\n", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_every_verb_and_flag(run: Run, shell: str) -> None:
    script = run("completion", shell).stdout
    flags = run("completion", "bash").stdout.split()
    assert {word for word in flags if word.startswith("--")} - {
        word if shell == "zsh" else f"--{word}" for word in script.replace('"', " ").replace(":", " ").split()
    } <= {"--"}
