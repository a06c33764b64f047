"""JSON values that are compared as JSON: for Python, 1 is equal to true and to 1.0."""

import json
from typing import Any


def exact(value: Any) -> str:
    """A text that is the same for values that are the same, whatever the order of their members is."""
    return json.dumps(value, sort_keys=True)
