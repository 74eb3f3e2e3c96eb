"""Draws the rooms of edgetune as layers: python .ci/picture.py [--check].

The layers are those of import-linter's contract in pyproject.toml, the sentences those of each room's docstring. Writes
docs/rooms.svg; with --check nothing is written, and the exit status is 1 where the file is not what would be written.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Sequence
from html import escape
from pathlib import Path

from generated import write_or_check

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "rooms.svg"
WIDTH, HEIGHT, GAP, MARGIN = 960, 44, 6, 10
FONT = 'font-family="DejaVu Sans, Arial, sans-serif"'


def layers(root: Path) -> list[list[str]]:
    """Names of the rooms, top down; those of one layer know nothing of each other."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]
    return [[name.strip(" ()") for name in layer.split("|")] for layer in contract["layers"]]


def sentence(root: Path, name: str) -> str:
    """What a room is for: the first line of its docstring, without its own name."""
    folder = root / "edgetune" / name
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    first = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    head, colon, rest = first.partition(": ")
    said = rest if colon and len(head.split()) <= 3 else first  # noqa: PLR2004  "The command line: ..."
    plain = said.replace("`", "")
    return plain[:1].upper() + plain[1:]


def drawn(root: Path) -> str:
    """The picture as SVG: a bar for each layer, the topmost first."""
    parts, y = [], MARGIN
    for rooms in layers(root):
        width = (WIDTH - 2 * MARGIN - GAP * (len(rooms) - 1)) / len(rooms)
        for place, room in enumerate(rooms):
            x = MARGIN + place * (width + GAP)
            size = f'x="{x:.0f}" y="{y}" width="{width:.0f}" height="{HEIGHT}"'
            parts.append(f'<rect {size} rx="4" fill="#eef3f8" stroke="#5b7590"/>')
            parts.append(f'<text x="{x + 10:.0f}" y="{y + 18}" {FONT} font-size="14" font-weight="bold">{room}</text>')
            said = _shortened(sentence(root, room), int((width - 20) / 6.2))
            parts.append(f'<text x="{x + 10:.0f}" y="{y + 35}" {FONT} font-size="11">{escape(said)}</text>')
        y += HEIGHT + GAP
    height = y - GAP + MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
    background = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, background, *parts, "</svg>"]) + "\n"


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 3].rpartition(' ')[0]} ..."


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the picture, or compare it."""
    return write_or_check(PICTURE, lambda: drawn(ROOT), "picture.py", (__doc__ or "").splitlines()[0], arguments)


if __name__ == "__main__":
    sys.exit(main())
