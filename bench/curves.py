"""Curves: what something costs by a size, kept in curves.json, and drawn as one picture each with both axes logarithmic."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

KEPT = Path(__file__).parent / "curves.json"
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
Points = list[tuple[float, float]]
_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 44, 52
_COLOURS = ("#1f6fb2", "#c8553d")


@dataclass(frozen=True)
class Curve:
    """Seconds by a size."""

    name: str
    title: str
    size: str
    """What the size counts."""
    points: Points

    def text(self) -> str:
        return ", ".join(f"{size:,.0f}: {seconds:.2f} s" for size, seconds in self.points)


def store(curve: Curve, where: str) -> None:
    """Keeps a curve, of one place where it was measured, and draws it with those of the others."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    entry = kept.setdefault(curve.name, {})
    entry[where] = [[size, round(seconds, 3)] for size, seconds in curve.points]
    KEPT.write_text(json.dumps(kept, indent=2) + "\n")
    PICTURES.mkdir(exist_ok=True)
    drawn = {place: [(float(size), float(seconds)) for size, seconds in points] for place, points in entry.items()}
    (PICTURES / f"{curve.name}.svg").write_text(picture(curve.title, curve.size, drawn))


def picture(title: str, size: str, curves: dict[str, Points]) -> str:
    """An SVG with a line a place."""
    across = _Axis([one for points in curves.values() for one, _ in points], _LEFT, _WIDTH - _RIGHT)
    up = _Axis([one for points in curves.values() for _, one in points], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _label(_LEFT, 20, title, size=14),
        _label((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, size, anchor="middle"),
        _label(_LEFT, 36, "seconds"),
    ]
    for value in across.ticks:
        x = across.at(value)
        parts.append(_line(x, _TOP, x, _HEIGHT - _BOTTOM))
        parts.append(_label(x, _HEIGHT - _BOTTOM + 18, f"{value:,.0f}", anchor="middle"))
    for value in up.ticks:
        y = up.at(value)
        parts.append(_line(_LEFT, y, _WIDTH - _RIGHT, y))
        parts.append(_label(_LEFT - 8, y + 4, f"{value:g}", anchor="end"))
    for number, (place, points) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        spots = [(across.at(one), up.at(seconds)) for one, seconds in points]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
        parts.append(_label(_WIDTH - _RIGHT, _TOP + 14 * (number + 1), place, anchor="end", colour=colour))
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """A logarithmic axis from one power of ten to another."""

    def __init__(self, values: list[float], start: float, end: float) -> None:
        self._first = math.floor(math.log10(min(values)))
        self._last = max(self._first + 1, math.ceil(math.log10(max(values))))
        self._start, self._end = start, end
        self.ticks = [10.0**power for power in range(self._first, self._last + 1)]

    def at(self, value: float) -> float:
        share = (math.log10(value) - self._first) / (self._last - self._first)
        return self._start + share * (self._end - self._start)


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="#dddddd"/>'


def _label(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{text}</text>'
