"""Instructions of operations: how many a core takes for one, by its kind, on an instruction set.

Most take one. A call takes those of the function, which are counted in its text or known from its algorithm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import log2
from typing import TypeAlias

from edgetune.codegen.dot_snippets import window_name
from edgetune.codegen.dot_tiles import tile_name
from edgetune.codegen.lane_products import STEM
from edgetune.codegen.lane_windows import STEM as WINDOW
from edgetune.codegen.lane_windows import lane_window_name
from edgetune.codegen.operations import polynomial_operations
from edgetune.codegen.polynomials import BODIES
from edgetune.codegen.work import DIVIDE, INDEX_DIVISION, LOAD, STORE, VECTOR_LOAD, VECTOR_STORE, Operation
from edgetune.target.isa.vector_instructions import Rows, VectorInstructions
from edgetune.target.target import Target

_LANES = re.compile(r"x(\d+)")
_OF_POLYNOMIAL = 1.4
"""Instructions of an operation of a polynomial: some are one with others, and selections and barriers come to it."""

_OF_INDEX_DIVISION = 3.0
_OTHER_CALL = 4.0
_LIBRARY_CALL = 40.0


def instructions_of(one: Operation, target: Target) -> float:
    """Instructions of one operation; a division counts as the instructions that begin while it runs."""
    if one.kind == DIVIDE:
        return target.costs.divided(max(1, target.vector_bits // 32)) / target.costs.operation
    if one.kind in (LOAD, STORE, VECTOR_LOAD, VECTOR_STORE):
        return 1.0 + _of_address(one, target)
    if one.kind == INDEX_DIVISION:
        return _OF_INDEX_DIVISION
    if ":" in one.kind:
        name, _, rest = one.kind.partition(":")
        lanes = [int(found) for found in _LANES.findall(rest)] or [1]
        return _of_snippet(name, lanes, one.elements, target)
    return _LIBRARY_CALL if one.kind.startswith("__builtin_") and one.kind not in _INLINE else 1.0


def _of_address(one: Operation, target: Target) -> float:
    """One more where the offset of a load or store does not fit the instruction."""
    reach, offset = target.instruction_set.offset_reach, _FLOAT * abs(one.offset)
    lanes = max(1, target.vector_bits // 32) if one.kind in (VECTOR_LOAD, VECTOR_STORE) else 1
    scaled = offset % (_FLOAT * lanes) == 0
    return 0.0 if offset <= (reach.scaled if scaled else reach.any) else 1.0


_FLOAT = 4  # bytes of most elements
_INLINE = frozenset(f"__builtin_{name}" for name in ("convertvector", "sqrtf", "sqrt", "fabsf", "fabs", "fma", "fmaf"))


def _of_snippet(name: str, lanes: list[int], elements: int, target: Target) -> float:
    """Those of a function for vectors of `lanes`; for several vectors, their number comes after the lanes."""
    function = name.removesuffix("_each")
    if function in BODIES:
        vectors = lanes[1] if len(lanes) > 1 else 1
        return polynomial_operations(function) * _OF_POLYNOMIAL * vectors
    if name == "mac":
        return _added_products(target)
    if steps := _BY_ROWS.get(name):
        return sum(_of_step(rows, lanes[0], plain, target) for rows, plain in steps)
    if rows := target.instruction_set.vectors.dot.get(name):
        return _of_step(lambda _: rows, lanes[0], 1.0, target)
    if name.startswith(STEM):
        windows = target.instruction_set.vectors.lane_products.items()
        return next((one.count for size, one in windows if window_name(size) == name), _OTHER_CALL)
    if name.startswith(WINDOW):
        known = target.instruction_set.vectors.lane_windows.items()
        return next((one.count for size, one in known if lane_window_name(size) == name), _OTHER_CALL)
    if name.startswith("dot_"):
        tiles = target.instruction_set.vectors.dot_tiles.items()
        return next(
            (one.count for of, sizes in tiles for size, one in sizes.items() if tile_name(of, size) == name),
            _OTHER_CALL,
        )
    if name.startswith("lanes_"):
        return 2.5 * lanes[1] if len(lanes) > 1 else 2 * log2(lanes[0])
    if function.startswith(_TRANSPOSITIONS):
        of_places = 1.4 if lanes[0] == 4 else 2.0  # two small squares share what finds their places
        return elements * (log2(lanes[0]) + 2) / lanes[0] * of_places
    found = _SNIPPETS.get(name, _OTHER_CALL)
    return found if isinstance(found, float) else found.get(lanes[0], max(found.values()))


def _of_step(rows: Callable[[VectorInstructions], Rows], lanes: int, plain: float, target: Target) -> float:
    """Those of a step of a function, where an instruction set has rows for it; the last one is for its least core."""
    found = rows(target.instruction_set.vectors).get(lanes)
    return found[-1].count if found else plain


_Steps: TypeAlias = Sequence[tuple[Callable[[VectorInstructions], Rows], float]]
_BY_ROWS: Mapping[str, _Steps] = {
    **dict.fromkeys(("vmax", "vmin", "vmaximum", "vminimum"), ((lambda isa: isa.min_max, 2.0),)),
    **dict.fromkeys(("vmax_bound", "vmin_bound"), ((lambda isa: isa.bounded, 2.0),)),
    **dict.fromkeys(("vmax_running", "vmin_running"), ((lambda isa: isa.running, 2.0),)),
    "widen": ((lambda isa: isa.widen, 1.0),),
    "from_half": ((lambda isa: isa.from_half, 4.0),),
    "to_half": ((lambda isa: isa.to_half, 4.0),),
    "widen_halves": ((lambda isa: isa.widen_halves, 1.0),),
    "mac_halves": ((lambda isa: isa.multiply_add_halves, 3.0),),
    "lane_pairs": ((lambda isa: isa.lane_pairs, 24.0),),
    "fixed_point_scale_down": ((lambda isa: isa.scale_down, 8.0),),
    "fixed_point_scale_by": ((lambda isa: isa.scale_by, 6.0),),
    **dict.fromkeys(("scaled_little_i8", "scaled_little_u8"), ((lambda isa: isa.scaled_byte_little, 9.0),)),
    "joined": ((lambda isa: isa.joined, 4.0),),
    "limited_i8": ((lambda isa: isa.limited, 4.0),),
    "low_bytes": ((lambda isa: isa.low_bytes, 4.0),),
    "low_bytes_apart": ((lambda isa: isa.low_bytes_apart, 4.0),),
    "widen_apart": ((lambda isa: isa.widen_apart, 4.0),),
    "vscale_all_by": ((lambda isa: isa.scale_all_by, 20.0),),
    "vscale_all_little": ((lambda isa: isa.scale_all_little, 20.0),),
    "vscale_down": ((lambda isa: isa.scale_down, 20.0),),
    "vscale_by": ((lambda isa: isa.scale_by, 20.0),),
    "vscale_little": ((lambda isa: isa.scale_little, 20.0),),
    **dict.fromkeys(("scaled_by_i8", "scaled_by_u8"), ((lambda isa: isa.scaled_byte_by, 10.0),)),
    **dict.fromkeys(("scaled_once_i8", "scaled_once_u8"), ((lambda isa: isa.scaled_byte_once, 14.0),)),
    **dict.fromkeys(("scaled_i8", "scaled_u8"), ((lambda isa: isa.scaled_byte, 12.0),)),
    **dict.fromkeys(("rounded_i8", "rounded_u8"), ((lambda isa: isa.rounded_byte, 40.0),)),
    "widen_word": ((lambda isa: isa.widen_word, 12.0),),
    "dot_twice_i8_i8_2": ((lambda isa: isa.dot_twice, 8.0),),
    "nearest": ((lambda isa: isa.nearest, 12.0),),
    "narrowed": ((lambda isa: isa.narrow_one, 8.0),),
    "narrowed_each": ((lambda isa: isa.narrow_four, 32.0),),
    "vfixed_point_scale": (
        (lambda _: {}, 2.0),  # the multiplier and the shift, which lie in one number
        (lambda isa: isa.high_product, 8.0),
        (lambda isa: isa.rounding_shift, 6.0),
    ),
}
"""By functions: their steps, each by the rows of instruction sets, and by other operations."""


def _added_products(target: Target) -> float:
    """Instructions that multiply integers and add the products to lanes: PMADDWD does not add, others do both."""
    best = next(iter(target.dot_products), None)
    return 2.0 if best is not None and best.data == "int16" else 1.0


_TRANSPOSITIONS = ("transpose", "split_", "join_")
_SNIPPETS: Mapping[str, float | Mapping[int, float]] = {
    "max": 2.0,
    "min": 2.0,
    "every_second": {4: 3.0, 8: 5.0, 16: 3.0},
    "pairs": {4: 2.0, 8: 6.0, 16: 6.0},
    "backwards": {4: 3.0, 8: 2.0, 16: 2.0},
    "every_third": {4: 8.0, 8: 6.0, 16: 6.0},
    "every_fourth": {4: 9.0, 8: 9.0, 16: 7.0},
    "columns": {4: 10.0, 8: 16.0},
    "take_turns": {4: 8.0, 8: 12.0, 16: 14.0},
    "sqrt": 4.0,
    "narrow": 3.0,
    "prefetch": 1.0,
    "fixed_point_scale": 8.0,
    "fixed_point_scale_once": 6.0,
    "vfixed_point_scale_once": 12.0,
}
"""Counted in the text that GCC 12 makes, without stores of results; of vectors, by their lanes.

`python -m benchmarks.oracle snippets` counts those that have no loops again.
"""
