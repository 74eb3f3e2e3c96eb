"""Plots of the page: matplotlib draws them, and what it writes is made fit to stand inside a page.

A style sheet and ids inside an SVG element hold for the whole page: the sheet is taken out, each id gets a prefix.
Colours are `currentColor` or a variable of the page, so they follow light, dark and print; text stays text.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_INK, _MORE, _LESS, _TOTAL = "#010203", "#010204", "#010205", "#010206"
_COLOURS = {_INK: "currentColor", _MORE: "var(--slower)", _LESS: "var(--faster)", _TOTAL: "var(--total)"}
_MOST_BARS = 10
_LEAST_SHARE = 0.002
_LABEL = 34
_BARS, _CHARACTER, _GAP = 180.0, 7.2, 7.0  # pixels
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_LEFT_OUT = {f"{_SVG}metadata", f"{_SVG}style"}
_POINTS = 72.0


@dataclass(frozen=True)
class Change:
    """A layer's cost in the accepted package and tonight."""

    name: str
    old: float
    new: float


@lru_cache(maxsize=8192)
def sparkline(costs: tuple[float | None, ...], alarms: tuple[bool, ...], label: str) -> str:
    """SVG of the costs of a cell, oldest first: a gap where there is none, a dot where it was slower, and the last."""

    def draw(figure: Any) -> None:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.plot(range(len(costs)), [float("nan") if cost is None else cost for cost in costs], color=_INK, lw=1.0)
        red = [(x, cost) for x, (cost, alarm) in enumerate(zip(costs, alarms, strict=True)) if alarm and cost]
        if red:
            axes.plot(*zip(*red, strict=True), "o", color=_MORE, ms=3.0, mew=0.0)
        last, cost = next((x, c) for x, c in zip(range(len(costs))[::-1], costs[::-1], strict=True) if c is not None)
        axes.plot([last], [cost], "o", color=_MORE if alarms[last] else _INK, ms=3.5, mew=0.0)
        axes.margins(0.04, 0.2)

    return _drawn(draw, (130.0, 26.0), label, f"s{_key(label)}")


@lru_cache(maxsize=1024)
def waterfall(changes: tuple[Change, ...], totals: tuple[float, float], scale: float, label: str, key: str) -> str:
    """SVG of the way from the accepted package's cost to tonight's, layer by layer, the largest changes first.

    `totals` are the costs of the whole, which are shown `scale` times.
    """
    old, new = totals
    ordered = sorted(changes, key=lambda change: -abs(change.new - change.old))
    visible = [change for change in ordered if abs(change.new - change.old) >= _LEAST_SHARE * max(old, new)]
    bars = [(change.name, change.new - change.old) for change in visible[:_MOST_BARS]]
    rest = new - old - sum(delta for _, delta in bars)
    if abs(rest) >= _LEAST_SHARE * max(old, new):
        bars.append(("all others", rest))
    ends = [old]
    for _, delta in bars:
        ends.append(ends[-1] + delta)
    low, high = min(*ends, new), max(*ends, new)
    digits = 1 if scale != 1.0 else 0
    floor = max(0.0, low - 0.6 * ((high - low) or high * 0.01))

    left = _CHARACTER * min(_LABEL, max(len(layer) for layer in ("accepted", *(layer for layer, _ in bars)))) + 2 * _GAP
    costs = [f"{old * scale:,.{digits}f}", *(f"{delta * scale:+,.{digits}f}" for _, delta in bars)]
    costs.append(f"{new * scale:,.{digits}f}")
    right = _CHARACTER * max(8, *map(len, costs)) + 2 * _GAP
    width = left + _BARS + right

    def draw(figure: Any) -> None:
        height = len(bars) + 2
        axes = figure.add_axes((left / width, 0.0, _BARS / width, 1.0))
        axes.set_axis_off()
        axes.set_ylim(height - 0.4, -0.6)
        axes.set_xlim(floor, high + 1e-9 * (high or 1.0))

        def row(place: int, words: tuple[str, str], span: tuple[float, float], colour: str) -> None:
            axes.barh(place, span[1] - span[0], left=span[0], height=0.62, color=colour)
            shown = words[0] if len(words[0]) <= _LABEL else words[0][: _LABEL - 1] + "…"
            at = axes.get_yaxis_transform()
            axes.text(-_GAP / _BARS, place, printable(shown), ha="right", va="center", transform=at, color=_INK)
            axes.text(1 + _GAP / _BARS, place, words[1], ha="left", va="center", transform=at, color=_INK)

        row(0, ("accepted", costs[0]), (floor, old), _TOTAL)
        for place, ((layer, delta), start) in enumerate(zip(bars, ends, strict=False), start=1):
            span = (min(start, start + delta), max(start, start + delta))
            row(place, (layer, costs[place]), span, _MORE if delta > 0 else _LESS)
            axes.plot([start, start], [place - 0.69, place - 0.31], color=_INK, lw=0.6)
        row(height - 1, ("tonight", costs[-1]), (floor, new), _TOTAL)

    return _drawn(draw, (width, 26.0 * (len(bars) + 2)), label, key)


def printable(text: str) -> str:
    """`text` without control characters, which XML cannot hold."""
    return "".join(char if char.isprintable() else " " for char in text)


def _drawn(draw: Callable[[Any], None], size: tuple[float, float], label: str, key: str) -> str:
    """Draw a figure of a size in pixels, and return it as an SVG element that may stand in a page."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": key, "text.parse_math": False, "font.size": 12.0}
    text = io.StringIO()
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser's font draws it
        figure = Figure(figsize=(size[0] / _POINTS, size[1] / _POINTS))
        draw(figure)
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _inlined(text.getvalue(), label, key)


def _inlined(text: str, label: str, key: str) -> str:
    root = ET.fromstring(text)  # noqa: S314  matplotlib wrote it
    width, height = root.attrib["width"].removesuffix("pt"), root.attrib["height"].removesuffix("pt")
    uses = set(re.findall(r'(?:url\(#|xlink:href="#)([^)"]+)', text))
    for parent in root.iter():
        for child in [child for child in parent if child.tag in _LEFT_OUT]:
            parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.tail = None
        if element.tag != "text":
            element.text = None
        element.attrib = _attributes(element.attrib, key, uses)
    root.attrib = {
        "width": width,
        "height": height,
        "viewBox": f"0 0 {width} {height}",
        "role": "img",
        "aria-label": printable(label),
    }
    return ET.tostring(root, encoding="unicode")


def _attributes(old: dict[str, str], key: str, uses: set[str]) -> dict[str, str]:
    """Attributes that stand in a page: unique ids, only those that are used; the page's colours and fonts."""
    new = {name: value for name, value in old.items() if name not in ("id", _LINK)}
    if old.get("id") in uses:
        new["id"] = f"{key}-{old['id']}"
    if _LINK in old:
        new["href"] = f"#{key}-{old[_LINK][1:]}"
    for name, value in new.items():
        if name in ("style", "fill", "stroke"):
            new[name] = _style(value)
        elif name in ("clip-path", "marker-end"):
            new[name] = value.replace("url(#", f"url(#{key}-")
        elif name not in ("id", "href"):
            new[name] = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), value)
    return new


def _style(text: str) -> str:
    for colour, name in _COLOURS.items():
        text = text.replace(colour, name)
    return re.sub(r"font:\s*([\d.]+px)[^;]*", r"font: \1 system-ui, sans-serif", text)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
