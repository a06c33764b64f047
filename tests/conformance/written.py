"""What a format writes of the conformance cases, and what it refuses: `python -m tests.conformance.written FORMAT`."""

import sys

import changeling
from changeling.conformance.cases import CASES, batch


def main(name: str) -> None:
    """Prints one line a case."""
    for case, change in CASES.items():
        _, rejects = changeling.encode(batch([change]), name)
        print(f"{case}: {', '.join(rejects['reason'].to_pylist()) or 'written'}")


if __name__ == "__main__":
    main(sys.argv[1])
