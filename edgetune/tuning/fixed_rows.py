"""Sizes of register tiles and of blocks of queries for attention that nobody tuned, the most promising first.

Both products get the tile that the formula gives them as kernels of their own. The scores of a block should stay in
the first cache beside the keys and values that pass by; as few queries as one tile has are enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from edgetune.config.target import Target
from edgetune.graph.attention import MIXED, PRODUCTS, RESULT
from edgetune.tuning.sketches.attention_rows import AttentionRows, RowsVariant
from edgetune.tuning.sketches.tile import Tile
from edgetune.tuning.sketches.variants import Variant
from edgetune.tuning.tile_costs import cheapest, divisors

_FLOAT = 4  # bytes
_SHARE = 4  # part of the first cache that scores may fill


def row_sizes(rows: AttentionRows, target: Target) -> Iterator[tuple[RowsVariant, dict[str, int]]]:
    """Variants and sizes by tile name, with less and less scratch."""
    seen: list[dict[str, int]] = []
    for limit in reversed(divisors(rows.queries, max(2, target.vector_registers))):
        for sizes in _sizes(rows, target, limit):
            if sizes not in seen:
                seen.append(sizes)
                yield RowsVariant(), sizes


def rows_note(rows: AttentionRows, sizes: dict[str, int]) -> str:
    """The sizes in words."""
    scores = f"{sizes['score_row']} queries, {sizes['score_vectors']} vectors of {rows.key_lanes} keys"
    mixed = f"{sizes['row']} queries, {sizes['vectors']} vectors of {rows.column_lanes}"
    return f"blocks of {sizes['block']} queries, register tiles {scores}, and {mixed}"


def _sizes(rows: AttentionRows, target: Target, limit: int) -> Iterator[dict[str, int]]:
    """Sizes whose tiles have at most `limit` queries: a block that fits the cache, then the smallest."""
    choices = [(1, queries) for queries in divisors(rows.queries, limit)]
    found = [cheapest(rows.anatomy, tile, Variant(("channel", "pixel")), target, choices)[1] for tile in _tiles(rows)]
    if not all(found):
        return
    scores, mixed = found
    sizes = {"score_row": scores["pixel"], "score_vectors": scores["vectors"], "reduction0": scores["reduction0"]}
    sizes |= {"row": mixed["pixel"], "vectors": mixed["vectors"], "reduction1": mixed["reduction0"]}
    least = lcm(scores["pixel"], mixed["pixel"])
    most = target.l1_bytes // (_SHARE * _FLOAT * rows.keys)
    blocks = [block for block in divisors(rows.queries, most) if block % least == 0]
    yield sizes | {"block": max(blocks, default=least)}
    yield sizes | {"block": least}


def _tiles(rows: AttentionRows) -> tuple[Tile, Tile]:
    """Both products as if each were a kernel of its own."""
    scores, mixed = (rows.anatomy.stage(name) for name in (PRODUCTS, MIXED))
    last = len(scores.spatial) - 1
    return (
        Tile(scores, (), rows.changes, None, last, last - 1, None, False, rows.keys, rows.key_lanes),
        Tile(mixed, (), (RESULT, *rows.after), None, last, rows.query, None, False, rows.columns, rows.column_lanes),
    )
