"""Bordered operands: a sum along whose lanes a place is kept within a row, or wraps, reads a row with a border.

In `sum(x[i, min(max(j + u - 2, 0), n - 1)] * w[u])` neighbours along j do not always read neighbours, so that lanes
would be loaded one by one. A stage before the sum writes rows of n + 4 elements, in which the first and the last
element of x are repeated. The place in such a row is j + u, and its loops are divided where the border begins
(`schedule/sketches/index_sets.py`). The same holds for a place that wraps or is reflected. A few results that take
turns, as in `sum(x[i // 3 + t] * w[t, i % 3])`, have an axis of their own (`interleaved_sums.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.domain import MOST_PLACES, Domain, simplified
from edgetune.affine.expressions import expressions, is_among, mentions
from edgetune.graph.reduction_stage import ReductionStage, buffer_of, variable
from edgetune.rewrites.interleaved_sums import results_in_turns
from edgetune.rewrites.stored_values import (
    StoredValue,
    kept,
    loading,
    statements_in,
    unused_name,
    with_statements,
)
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, stage_of
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import BufferLoad, Expr, PrimFunc, Stmt, TvmBuffer, Var

_FEWEST_LANES = 4


@dataclass(frozen=True)
class _Place:
    """The last index of a load: `value` is what it is at `place`, a variable; `core` is that place of the axes.

    `core` counts from `first` to `end`, exclusively.
    """

    core: Expr
    place: Var
    value: Expr
    first: int
    end: int


def with_bordered_operands(function: PrimFunc, constants: Collection[int]) -> PrimFunc:
    """`function`, unscheduled, with one more stage for each row with a border; `constants` are packed as they are."""
    before = statements_in(function)
    stages = [stage_of(statement) for statement in before]
    left = [function.params[number] for number in constants]
    names = {stage.name for stage in stages if stage is not None}
    statements: list[Stmt] = []
    stored: list[StoredValue] = []
    for statement, stage in zip(before, stages, strict=True):
        changes: list[tuple[Expr, Expr]] = []
        for load, place in _bordered(stage, left) if stage is not None else ():
            one = _rows(load, place, unused_name(f"{load.source.name}_bordered", names))
            known = next((other for other in stored if other.computes_same(one)), None)
            if known is None:
                stored.append(one)
                names.add(one.stage.name)
                statements.append(kept(one.stage.statement()))
            changes.append((load, _read(load, place, (known or one).stage.out)))
        statements.append(loading(statement, changes) if changes else statement)
    return with_statements(function, statements, stored) if stored else function


def _bordered(stage: BlockStage, left: Sequence[TvmBuffer]) -> Iterator[tuple[BufferLoad, _Place]]:
    """The loads of a reduction whose last index is kept within a row, or wraps, along the lanes, and these places."""
    store, block = stage.block.body, stage.block
    if block.init is None or not stage.spatial or not isinstance(store, tirx.BufferStore):
        return
    lane = stage.spatial[-1]
    if extent_of(lane) < _FEWEST_LANES or results_in_turns(stage) > 1:
        return
    for load in expressions(store.value):
        if not isinstance(load, ir.TensorLoad) or not load.indices or is_among(load.source, [*left, store.buffer]):
            continue
        *outer, last = load.indices
        if not mentions(last, lane.var) or any(mentions(index, lane.var) for index in outer):
            continue
        place = _place(last, stage)
        if place is None:
            continue
        rows = prod(int(extent) for extent in load.source.ty.shape[:-1])
        inside = _is_inside(place, int(load.source.ty.shape[-1]))
        if inside and stage.work >= MARGINS.uses_of_border * rows * (place.end - place.first):
            yield load, place


def _place(index: Expr, stage: BlockStage) -> _Place | None:
    """The place of the axes on which an index depends; None where that is the index itself, or there is none."""
    parts = list(_affine_parts(index))
    if not parts or parts[0].same_as(index):
        return None
    analyzer = stage.analyzer()
    core, place = parts[0], tirx.Var("place", index.ty)
    bound = analyzer.const_int_bound(core)
    first, end = int(bound.min_value), int(bound.max_value) + 1
    at: list[tuple[Expr, Expr]] = []
    for part in parts:
        ahead, back = analyzer.simplify(part - core), analyzer.simplify(part + core)
        if isinstance(ahead, tirx.IntImm):
            at.append((part, place + ahead))
        elif isinstance(back, tirx.IntImm):
            at.append((part, back - place))
        else:
            return None

    def changed(node: Expr) -> Expr:
        return next((new for old, new in at if node.same_as(old)), node)

    kinds = {type(old) for old, _ in at}
    value = tvm_ffi.structural_map(index, [(kind, changed) for kind in kinds])
    if any(mentions(value, axis.var) for axis in (*stage.spatial, *stage.reduction)) or end - first > MOST_PLACES:
        return None
    return _Place(core, place, value, first, end)


def _affine_parts(index: Expr) -> Iterator[Expr]:
    """The largest parts of an index that are sums of axes and constants, and depend on an axis."""
    if _is_affine(index):
        if _has_axis(index):
            yield index
        return
    for name in ("a", "b", "condition", "true_value", "false_value", "value"):
        part = getattr(index, name, None)
        if isinstance(part, ir.Expr):
            yield from _affine_parts(part)


def _is_affine(index: Expr) -> bool:
    if isinstance(index, tirx.Add | tirx.Sub):
        return _is_affine(index.a) and _is_affine(index.b)
    if isinstance(index, tirx.Mul):
        return (
            _is_affine(index.a) and _is_affine(index.b) and any(isinstance(i, tirx.IntImm) for i in (index.a, index.b))
        )
    return isinstance(index, ir.Var | tirx.IntImm)


def _has_axis(index: Expr) -> bool:
    return any(isinstance(node, ir.Var) for node in expressions(index))


def _is_inside(place: _Place, extent: int) -> bool:
    """Whether the row is read inside at all places."""
    places = ir.Range.from_min_extent(place.first, place.end - place.first)
    return Domain({place.place: places}).is_inside(place.value, extent)


def _rows(load: BufferLoad, place: _Place, name: str) -> StoredValue:
    """The stage that writes the rows with a border."""
    dtype, source = str(place.place.ty.dtype), load.source
    *outer, _ = (int(extent) for extent in source.ty.shape)
    axes = [(variable(f"r{number}", dtype), extent) for number, extent in enumerate(outer)]
    axes.append((variable("c", dtype), place.end - place.first))
    out = buffer_of(name, axes, str(source.ty.dtype))
    moved = tirx.const(place.first, dtype) + axes[-1][0] if place.first else axes[-1][0]

    def at(one: Var) -> Expr:
        return moved if one.same_as(place.place) else one

    column = simplified(tvm_ffi.structural_map(place.value, [(ir.Var, at)]))
    value = tirx.BufferLoad(source, [*(one for one, _ in axes[:-1]), column])
    return StoredValue((), ReductionStage(name, out, tuple(one for one, _ in axes), tuple(axes), (), value))


def _read(load: BufferLoad, place: _Place, rows: TvmBuffer) -> BufferLoad:
    """The load from the rows with a border."""
    return tirx.BufferLoad(rows, [*load.indices[:-1], simplified(place.core - place.first)])
