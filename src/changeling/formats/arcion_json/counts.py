"""Arcion's `operationcount`: how many operations of each kind an output contains so far."""

from changeling.formats.format import Counts


def write(counts: Counts) -> str:
    """The running totals as the JSON text of `operationcount`."""
    return (
        f'{{"insertCount":{counts.insert},"updateCount":{counts.update},'
        f'"deleteCount":{counts.delete},"replaceCount":{counts.replace}}}'
    )
