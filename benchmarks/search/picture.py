"""The search benchmark as SVG: for each operator, the share of the roofline that edgetune and its peer reach."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from html import escape

from benchmarks.search.table import CaseResult

_WIDTH, _LABEL, _ROW, _TOP, _END = 760, 96, 26, 56, 72
_OURS, _PEER = "#1f6feb", "#8c959f"


def picture(results: Sequence[CaseResult], peer: str) -> str:
    """SVG text; `peer` is the title of the other side.

    A bar that would be longer than the roofline ends there. Cases without a peer are left out.
    """
    results = [result for result in results if result.peer_us]
    height = _TOP + _ROW * len(results) + 28
    view = f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LABEL}" y="20" font-size="15">Share of the roofline, one core</text>',
        f'<rect x="{_LABEL}" y="30" width="12" height="10" fill="{_OURS}"/>',
        f'<text x="{_LABEL + 18}" y="40">edgetune</text>',
        f'<rect x="{_LABEL + 96}" y="30" width="12" height="10" fill="{_PEER}"/>',
        f'<text x="{_LABEL + 114}" y="40">{escape(peer)}; the number is its time over that of edgetune</text>',
    ]
    for percent in (25, 50, 75, 100):
        x = _at(percent / 100)
        parts.append(f'<path d="M{x:.1f} {_TOP - 6}V{height - 24}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{percent} %</text>')
    for number, result in enumerate(results):
        parts += _row(result, _TOP + _ROW * number)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(result: CaseResult, y: int) -> list[str]:
    ours, other = result.share, result.roofline_us / statistics.median(result.peer_us)
    bars = [
        f'<rect x="{_LABEL}" y="{y + offset}" width="{_at(share) - _LABEL:.1f}" height="9" fill="{colour}">'
        f"<title>{escape(result.name)}: {share:.0%}</title></rect>"
        for share, offset, colour in ((ours, 0, _OURS), (other, 10, _PEER))
    ]
    return [
        f'<text x="{_LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(result.name)}</text>',
        *bars,
        f'<text x="{_WIDTH - 8}" y="{y + 14}" text-anchor="end">{result.ratio:.2f}</text>',
    ]


def _at(share: float) -> float:
    """The pixel at which a bar of this share ends."""
    return _LABEL + min(share, 1.0) * (_WIDTH - _LABEL - _END)
