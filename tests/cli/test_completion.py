"""The scripts of `changeling completion`, run by each shell that is installed here."""

import shutil
import subprocess
from collections.abc import Callable
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


# What zsh itself would do: it filters words by what is typed, and lists files.
_ZSH_COMPLETE = """
compdef() { print -r -- "$1 completes $2" }
compadd() { shift; for word in "$@"; do [[ $word == ${words[CURRENT]}* ]] && print -r -- $word; done; true }
_files() { print files }
source ./script
words=("$@")
CURRENT=$#
_changeling
"""


def in_zsh(folder: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["zsh", "-f", "-c", _ZSH_COMPLETE, "zsh", "changeling", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    first, *found = done.stdout.splitlines()
    assert first == "_changeling completes changeling"
    return found


def in_fish(folder: Path, *words: str) -> list[str]:
    line = " ".join(["changeling", *words])
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source ./script; complete -C '{line}'"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    return ["files"] if "a.jsonl" in found else found


@pytest.mark.parametrize(("shell", "proposed"), [("zsh", in_zsh), ("fish", in_fish)])
def test_other_shells_complete_the_same(
    run: Run, tmp_path: Path, shell: str, proposed: Callable[..., list[str]]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "script").write_text(run("completion", shell).stdout)
    assert proposed(tmp_path, "dec") == ["decode"]
    assert sorted(proposed(tmp_path, "feed", "")) == ["alter", "create", "drop", "list", "read", "show"]
    assert sorted(proposed(tmp_path, "decode", "a", "--from", "")) == sorted(registry.names())
    assert proposed(tmp_path, "convert", "a", "--to", "ydb-j") == ["ydb-json"]
    assert proposed(tmp_path, "decode", "a", "--car") == ["--carrier"]
    assert sorted(proposed(tmp_path, "decode", "a", "--carrier", "")) == ["kcat", "plain"]
    assert proposed(tmp_path, "feed", "create", "f", "--ta") == ["--table"]
    assert proposed(tmp_path, "decode", "") == ["files"]
    assert proposed(tmp_path, "status", "--pipeline", "") == ["files"]
    assert proposed(tmp_path, "decode", "a", "--limit", "") == []
    # What looks like a verb but stands elsewhere is none.
    assert proposed(tmp_path, "decode", "run", "--fr") == ["--from"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_every_verb_and_flag(run: Run, shell: str) -> None:
    script = run("completion", shell).stdout
    flags = run("completion", "bash").stdout.split()
    assert {word for word in flags if word.startswith("--")} - {
        word if shell == "zsh" else f"--{word}" for word in script.replace('"', " ").replace(":", " ").split()
    } <= {"--"}
