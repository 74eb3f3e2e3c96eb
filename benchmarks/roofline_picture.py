"""The roofline of one package as SVG: limits as lines, layers as circles whose area is their share of the time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.peaks import Peaks
    from benchmarks.roofline import Layer

WIDTH, HEIGHT, MARGIN = 760, 480, 64
COLOURS = {"compute": "#1f6feb", "L1": "#1a7f37", "L2": "#bf8700", "DRAM": "#cf222e"}


class Axis:
    """A logarithmic axis: values from `low` to `high` lie between the pixels `first` and `last`."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self.low, self.high = low, high
        self._first, self._last = first, last

    def at(self, value: float) -> float:
        """Pixel of `value`, which is held between the ends."""
        share = math.log(min(max(value, self.low), self.high) / self.low) / math.log(self.high / self.low)
        return self._first + share * (self._last - self._first)

    def ticks(self) -> list[float]:
        """Powers of ten on the axis."""
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        return [10.0**power for power in range(first, last + 1)]


def picture(name: str, layers: Sequence[Layer], peaks: Peaks) -> str:
    """SVG text; operations per byte to the right, GFLOP/s upwards, both logarithmic."""
    drawn = [layer for layer in layers if layer.macs]
    x = Axis(min([0.1, *(layer.intensity / 2 for layer in drawn)]), 1000.0, MARGIN, WIDTH - 16)
    top = 2 * max([peaks.flops, *(layer.flops for layer in drawn)])
    y = Axis(min([peaks.flops / 1000, *(layer.flops / 2 for layer in drawn)]), top, HEIGHT - MARGIN, 32)
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="15">{escape(name)}</text>',
        *_axes(x, y),
        *_limits(x, y, peaks),
    ]
    total = sum(layer.us for layer in layers)
    for layer in sorted(drawn, key=lambda layer: -layer.us):
        radius = 3 + 22 * math.sqrt(layer.us / total)
        colour = COLOURS[layer.bound]
        told = f"{layer.index} {layer.name}: {layer.us:.2f} us, {layer.flops / 1e9:.1f} GFLOP/s, bound by {layer.bound}"
        parts.append(
            f'<circle cx="{x.at(layer.intensity):.1f}" cy="{y.at(layer.flops):.1f}" r="{radius:.1f}" fill="{colour}" '
            f'fill-opacity="0.45" stroke="{colour}"><title>{escape(told)}</title></circle>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes(x: Axis, y: Axis) -> list[str]:
    bottom, left = HEIGHT - MARGIN, MARGIN
    parts = [f'<path d="M{left} 32V{bottom}H{WIDTH - 16}" fill="none" stroke="black"/>']
    for tick in x.ticks():
        parts.append(f'<text x="{x.at(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<path d="M{x.at(tick):.1f} 32V{bottom}" stroke="#ddd"/>')
    for tick in y.ticks():
        parts.append(f'<text x="{left - 6}" y="{y.at(tick) + 4:.1f}" text-anchor="end">{tick / 1e9:g}</text>')
        parts.append(f'<path d="M{left} {y.at(tick):.1f}H{WIDTH - 16}" stroke="#ddd"/>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 20}" text-anchor="middle">operations per byte</text>')
    middle = HEIGHT / 2
    parts.append(f'<text transform="rotate(-90 18 {middle})" x="18" y="{middle}" text-anchor="middle">GFLOP/s</text>')
    return parts


def _limits(x: Axis, y: Axis, peaks: Peaks) -> list[str]:
    parts = []
    for level, rate in peaks.bandwidth.items():
        ridge = peaks.flops / rate
        start, colour = max(x.low, y.low / rate), COLOURS[level]
        ends = f"M{x.at(start):.1f} {y.at(start * rate):.1f}L{x.at(ridge):.1f} {y.at(peaks.flops):.1f}"
        parts.append(f'<path d="{ends}" stroke="{colour}" fill="none"/>')
        parts.append(
            f'<text x="{x.at(start) + 6:.1f}" y="{y.at(start * rate) - 8:.1f}" fill="{colour}">{level} '
            f"{rate / 1e9:.0f} GB/s</text>"
        )
    peak, first = y.at(peaks.flops), x.at(peaks.flops / max(peaks.bandwidth.values()))
    parts.append(f'<path d="M{first:.1f} {peak:.1f}H{WIDTH - 16}" stroke="{COLOURS["compute"]}"/>')
    parts.append(
        f'<text x="{WIDTH - 20}" y="{peak - 6:.1f}" text-anchor="end" fill="{COLOURS["compute"]}">'
        f"{peaks.flops / 1e9:.0f} GFLOP/s</text>"
    )
    return parts
