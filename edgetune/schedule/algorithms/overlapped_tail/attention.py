"""Overlapped-tail algorithms of attention: whole vectors of keys and of columns, and whole tiles of queries.

The last vector of keys overlaps the one before it, so a few scores of each query are computed twice. That changes no
maximum, and the power of the second copy is 0, so each key counts once in the sum of powers. The weighted values are
sums over keys, not over places. The last vector of columns and the last tile of queries write results again.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.graph.attention import LARGEST, MIXED, POWERS, RESULT, TOTALS
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.overlapped_tail.function import Stretching
from edgetune.schedule.algorithms.overlapped_tail.overlap import Overlap
from edgetune.schedule.algorithms.schedule_text import TILES, VECTORS, size_of
from edgetune.schedule.sketches.attention_rows import COLUMN_LANES, KEY_LANES, QUERY_TILE, AttentionRows, find_rows
from edgetune.schedule.sketches.block_analysis import MOST_LANES, BlockStage, analyse_blocks, lanes_in
from edgetune.tvm_types import PrimFunc

_ANY_LANES = 64


def attention_rows(function: PrimFunc) -> AttentionRows | None:
    """The parts of an unscheduled PrimFunc that computes attention; None for any other function."""
    analysis = analyse_blocks(function)
    return None if analysis is None else find_rows(analysis, _ANY_LANES)


def whole_attention_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm of attention called `name`, such as "vectors_256+tiles_6"; None if it changes nothing.

    A part of the name must change something: whole vectors need an axis of keys or columns that a vector does not
    divide, whole tiles more queries than a tile has, which do not divide into tiles.
    """
    for part in name.split("+"):
        rows = attention_rows(function)
        if rows is None:
            return None
        stretched = _of_vectors(rows, part) if part in VECTORS else _of_tiles(rows, part) if part in TILES else None
        if stretched is None:
            return None
        function = stretched
    return Algorithm(name, function)


def lanes_within(extent: int, lanes: int) -> int:
    """The lanes of the widest whole vector, of at most `lanes`, that `extent` elements fill."""
    return min(lanes, 1 << (extent.bit_length() - 1))


def _of_vectors(rows: AttentionRows, name: str) -> PrimFunc | None:
    """The function with keys and columns in whole vectors; None if they are already."""
    lanes = lanes_in(size_of(name), rows.analysis.function)
    keys, columns = (lanes_within(extent, lanes) for extent in (rows.keys, rows.columns))
    function = rows.analysis.function
    if rows.keys % keys:
        function = _with_whole_keys(rows, keys)
    if rows.columns % columns:
        function = _with_whole_columns(attention_rows(function) or rows, columns)
    return None if function is rows.analysis.function else function


def _with_whole_keys(rows: AttentionRows, lanes: int) -> PrimFunc:
    later = _of_columns(rows)
    summed: dict[str, Sequence[int]] = {name: [len(rows.analysis.stage(name).spatial)] for name in (LARGEST, TOTALS)}
    return Stretching(
        rows.analysis,
        [stage for stage in rows.analysis.stages if stage not in later],
        [-1],
        Overlap(1, rows.keys, lanes),
        {},
        {KEY_LANES: lanes, MOST_LANES: lanes},
        own_axes=summed,
        once={POWERS},
        later=later,
    ).function()


def _with_whole_columns(rows: AttentionRows, lanes: int) -> PrimFunc:
    least = min(lanes, rows.analysis.attribute(MOST_LANES) or lanes)
    attributes = {COLUMN_LANES: lanes, MOST_LANES: least}
    overlap = Overlap(1, rows.columns, lanes)
    return Stretching(rows.analysis, _of_columns(rows), [-1], overlap, {}, attributes).function()


def _of_columns(rows: AttentionRows) -> list[BlockStage]:
    """The stages whose last axis is that of columns."""
    return [rows.analysis.stage(name) for name in (MIXED, RESULT, *rows.after)]


def _of_tiles(rows: AttentionRows, name: str) -> PrimFunc | None:
    """The function with queries in whole tiles; None if they are already, or fewer than one tile."""
    size, stages = size_of(name), rows.analysis.stages
    if rows.queries <= size or rows.queries % size == 0:
        return None
    own: dict[str, Sequence[int]] = {name: [-1] for name in (LARGEST, TOTALS)}
    own |= {stage.name: [-2] for stage in stages if stage.name not in own}
    own |= {stage.name: [rows.query] for stage in _of_columns(rows)}
    overlap, attributes = Overlap(1, rows.queries, size), {QUERY_TILE: size}
    return Stretching(rows.analysis, stages, [rows.query], overlap, {}, attributes, own_axes=own).function()
