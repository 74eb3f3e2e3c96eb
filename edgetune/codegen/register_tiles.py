"""Register tiles: which row and column of its tile each register of a small buffer holds.

Lowering makes every buffer flat, so a function carries the shapes that its buffers had before. All axes but the last
are the rows (the pixels of a convolution), the vectors of the last axis are the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tvm import s_tir, tirx

from edgetune.tvm_types import PrimFunc, Stmt

_SHAPES = "edgetune.shapes"


def tile_shapes(function: PrimFunc) -> dict[str, list[int]]:
    """Shapes of the buffers that a function with blocks allocates, by name, where a name means one constant shape."""
    shapes: dict[str, set[tuple[int, ...]]] = {}

    def visit(node: Stmt) -> None:
        if isinstance(node, tirx.SeqStmt):
            for child in node.seq:
                visit(child)
        elif isinstance(node, s_tir.SBlockRealize):
            for buffer in node.block.alloc_buffers:
                extents = (int(extent.value) if isinstance(extent, tirx.IntImm) else 0 for extent in buffer.ty.shape)
                shapes.setdefault(str(buffer.name), set()).add(tuple(extents))
            visit(node.block.body)
        elif isinstance(node, (tirx.For, tirx.AttrStmt)):
            visit(node.body)

    visit(function.body)
    return {name: list(*found) for name, found in shapes.items() if len(found) == 1 and 0 not in next(iter(found))}


def with_shapes(function: PrimFunc, shapes: Mapping[str, list[int]]) -> PrimFunc:
    """`function`, which carries `shapes`."""
    return function.with_attr(_SHAPES, dict(shapes)) if shapes else function


def shapes_in(function: PrimFunc) -> dict[str, list[int]]:
    """The shapes that a function carries, by the name of a buffer."""
    found = function.attrs.get(_SHAPES) if function.attrs else None
    return {str(name): [int(extent) for extent in shape] for name, shape in found.items()} if found else {}


def tile_places(pieces: Mapping[int, int], shape: list[int]) -> dict[int, str]:
    """The ending of each piece's name, by its first element: "_2_1" is row 2, column 1; one number for one line.

    `pieces` is {first element: elements}. Empty if they do not lie in the rows of a tile.
    """
    long = [extent for extent in shape if extent > 1]
    width = max(pieces.values(), default=1)
    # A last axis of one vector has no columns: those are the axis before it.
    columns = prod(long[-2:]) if len(long) > 1 and long[-1] <= width else prod(long[-1:])
    if any(first + wide > prod(shape) or first % columns + wide > columns for first, wide in pieces.items()):
        return {}
    rows: dict[int, list[int]] = {}
    for first in sorted(pieces):
        rows.setdefault(first // columns, []).append(first)
    places = {first: (row, number) for row, firsts in rows.items() for number, first in enumerate(firsts)}
    for line in (0, 1):
        if len({place[line] for place in places.values()}) == 1:
            return {first: f"_{place[1 - line]}" for first, place in places.items()}
    return {first: f"_{row}_{column}" for first, (row, column) in places.items()}
