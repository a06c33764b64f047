"""The memory that decoding a file takes without Spark: it must not grow with the file."""

import subprocess
import sys

from bench.events import file_of
from bench.measuring import Benchmark, Result

SMALL, LARGE = 160_000, 960_000
"""Events: about 100 MB and 600 MB."""
_DECODE = """
import resource, sys
from changeling.formats.format import read_options
from changeling.files import paths, reading
from changeling.formats import registry
from changeling.formats.decoding import Decoder

form = registry.get("xtdb")
options = read_options(form, {})
decoder = Decoder(form, options)
count = 0
for batch in reading.read(paths.expand([sys.argv[1]]), framing=form.framing(options)):
    count += decoder(batch.records).changes.num_rows
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def benchmarks() -> dict[str, Benchmark]:
    return {"memory-decode": growth}


def growth() -> Result:
    small, large = _peak(SMALL), _peak(LARGE)
    note = f"peak for a file of {_size(LARGE)} to that for one of {_size(SMALL)}; the ratio should stay near 1"
    return Result("memory-decode", large, "MB", peer=small, aim=1, note=note)


def _size(count: int) -> str:
    return f"{file_of(count).stat().st_size / 1e6:,.0f} MB"


def _peak(count: int) -> float:
    path = str(file_of(count))
    done = subprocess.run([sys.executable, "-c", _DECODE, path], capture_output=True, text=True, check=True)
    decoded, kilobytes = map(int, done.stdout.split())
    assert decoded == count, f"{decoded} of {count} events were decoded"
    return kilobytes / 1024
