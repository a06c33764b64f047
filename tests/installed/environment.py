"""The package as users get it: a wheel, installed into an environment that has what the wheel requires, and nothing else.

What it requires is linked from the environment of the tests instead of fetched: that takes a second, needs no network, and
finds a requirement that was not declared just as well, as the new environment has no other packages.
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from zipfile import Path as ZipPath

from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path) -> Path:
    """The wheel of a copy of the sources: building leaves files behind."""
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(REPOSITORY / "src", source / "src", ignore=unwanted)
    # setuptools is one of the packages for development: nothing is fetched.
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    (wheel,) = folder.glob("changeling-*.whl")
    return wheel


class Environment:
    """An environment with the wheel and what it requires, with some of its extras."""

    def __init__(self, folder: Path, wheel: Path, *extras: str) -> None:
        self._python = folder / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        for found in required(of_wheel(wheel), extras):
            for name in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
                (packages / name).symlink_to(Path(str(found.locate_file(name))))
        _pip("--python", str(self._python), "install", "--no-deps", str(wheel))
        _pip("--python", str(self._python), "check")

    def run(self, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs `changeling ARGS` with no other variables than these: no Java is found, unless one of them says where."""
        command = [str(self._python.with_name("changeling")), *arguments]
        return subprocess.run(
            command, cwd=cwd, env={"PATH": "", **environment}, capture_output=True, text=True, check=False, timeout=300
        )


def of_wheel(wheel: Path) -> Distribution:
    """What the wheel says of itself."""
    (folder,) = (entry for entry in ZipPath(wheel).iterdir() if entry.name.endswith(".dist-info"))
    return PathDistribution(folder)


def required(wheel: Distribution, extras: tuple[str, ...]) -> list[Distribution]:
    """The installed distributions that a wheel with some extras needs, directly or not."""
    found: dict[str, Distribution] = {}
    asked = set[tuple[str, str]]()
    waiting = [(wheel, extra) for extra in ("", *extras)]
    while waiting:
        needing, extra = waiting.pop()
        for requirement in map(Requirement, needing.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                name = requirement.name.lower()
                installed = found[name] = found.get(name) or distribution(name)
                more = {(name, one) for one in ("", *requirement.extras)} - asked
                asked |= more
                waiting += [(installed, one) for _, one in more]
    return list(found.values())


def _pip(*arguments: str) -> None:
    """Runs pip without an index, whatever is configured."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
