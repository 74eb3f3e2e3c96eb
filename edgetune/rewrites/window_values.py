"""Window values: what the windows of a reduction compute again and again of the same elements is stored once.

A sum over 3x3 windows of `across[r + i, c + j] * down[r + i, c + j]` multiplies each element nine times, and computes
`across` as often where that is a stage of its own that its readers repeat. Where a value depends on r + i and c + j
alone, it becomes a stage over these places, if storing and loading it takes at most `Margins.gain_of_rewrite` of the
instructions that repeating it does. Where a sum has nothing but such values, its rows and columns may then be summed
apart (`graph/separable_windows.py`). The same holds for a stage that another one without a reduction reads at several
places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.access import Access
from edgetune.affine.domain import Domain, simplified, starts_at_zero
from edgetune.affine.expressions import expressions, is_branch, loads_in, mentions, with_places
from edgetune.graph.element_type import is_floating, type_of
from edgetune.graph.reduction_stage import Axis, ReductionStage, variable
from edgetune.rewrites.stored_values import (
    StoredValue,
    axes_of,
    different_loads,
    is_one_of,
    kept,
    loading,
    statements_in,
    unused_name,
    with_statements,
)
from edgetune.schedule.sketches.block_analysis import COMPUTED_ONCE, block_of, extent_of
from edgetune.target.core import WIDEST
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import BufferLoad, Expr, IterVar, PrimFunc, SBlock, Stmt, TvmBuffer, Var

_MOST_NODES = 200
_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max)
_CONDITIONS = (tirx.Select, tirx.And, tirx.Or, tirx.Not)


@dataclass(frozen=True)
class _Work:
    """Cycles of a value: of its operations, and of the loads of different elements."""

    operations: float
    loads: float

    @property
    def whole(self) -> float:
        """All cycles."""
        return self.operations + self.loads


@dataclass(frozen=True)
class _Windows:
    """The places of a value: each axis that it depends on, alone or as the sum of one of results and one of terms."""

    places: tuple[tuple[IterVar, IterVar | None], ...]

    @property
    def extents(self) -> list[int]:
        """The number of places along each axis."""
        return [extent_of(one) + (0 if other is None else extent_of(other) - 1) for one, other in self.places]

    @property
    def moving(self) -> list[int]:
        """The terms of windows along each axis along which they move."""
        return [extent_of(other) for _, other in self.places if other is not None and extent_of(other) > 1]


@dataclass
class _Known:
    """The stages so far that readers would compute again, by what they write, and the names of all stages."""

    names: set[str]
    repeated: list[tuple[TvmBuffer, _Work]] = field(default_factory=list)
    once: list[TvmBuffer] = field(default_factory=list)  # those that are kept

    def of(self, buffer: TvmBuffer) -> _Work | None:
        """What the reader of a stage repeats for an element; None for a tensor that is stored anyway."""
        if any(buffer.same_as(one) for one in self.once):
            return None
        return next((work for one, work in self.repeated if one.same_as(buffer)), None)


def with_window_values(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, with a stage for each value that windows would compute again and again."""
    before = statements_in(function)
    known = _Known({str(block_of(statement).name_hint) for statement in before})
    written = list(function.params)
    statements: list[Stmt] = []
    stored: list[StoredValue] = []
    for statement in before:
        changed, found = _stored(statement, known)
        statements += [*(kept(one.stage.statement()) for one in found), changed]
        stored += found
        _note(statement, known, written)
    if not stored and not known.once:
        return function
    marked = [kept(one) if _writes(one, known.once) else one for one in statements]
    return with_statements(function, marked, stored)


def _note(statement: Stmt, known: _Known, written: Sequence[TvmBuffer]) -> None:
    """Take notice of a stage that its readers may compute again."""
    block, store = block_of(statement), block_of(statement).body
    if not isinstance(store, tirx.BufferStore) or block.init is not None or COMPUTED_ONCE in block.annotations:
        return
    if any(store.buffer.same_as(one) for one in written) or not is_floating(store.buffer):
        return
    work = None if _has_condition(store.value) else _work(store.value, known)
    if work is not None and work.operations:
        known.repeated.append((store.buffer, work))


def _writes(statement: Stmt, buffers: Sequence[TvmBuffer]) -> bool:
    store = block_of(statement).body
    return isinstance(store, tirx.BufferStore) and any(store.buffer.same_as(one) for one in buffers)


def _stored(statement: Stmt, known: _Known) -> tuple[Stmt, list[StoredValue]]:
    """A statement that loads the values of its windows, and these. Stages that are kept for it become known."""
    block = block_of(statement)
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not is_floating(store.buffer):
        return statement, []
    if sum(1 for _ in islice(expressions(store.value), _MOST_NODES + 1)) > _MOST_NODES:
        return statement, []
    if block.init is None:
        known.once += _read_by_neighbours(store.value, known)
        return statement, []
    if not isinstance(store.value, _ARITHMETIC):
        return statement, []
    made: list[StoredValue] = []
    loads: list[tuple[Expr, Expr]] = []
    for value, windows in _of_windows(store.value.b, block, known, whole=True):
        if isinstance(value, ir.TensorLoad):
            known.once.append(value.source)
            continue
        one = _value_at(value, windows, unused_name(f"{block.name_hint!s}_terms", known.names))
        same = next((other for other in made if one.computes_same(other)), None)
        if same is None:
            made.append(one)
            known.names.add(one.stage.name)
        places = [first.var if other is None else first.var + other.var for first, other in windows.places]
        loads.append((value, tirx.BufferLoad((same or one).stage.out, places)))
    return (loading(statement, loads) if loads else statement), made


def _of_windows(value: Expr, block: SBlock, known: _Known, *, whole: bool) -> Iterator[tuple[Expr, _Windows]]:
    """The largest parts of a term that are worth storing, and their places; `whole`: the part is the term."""
    if _has_condition(value):
        return
    windows = _windows(value, block)
    if windows is not None and _is_worth_it(value, windows, block, known, whole=whole):
        yield value, windows
        return
    parts = value.args if isinstance(value, ir.Call) else [getattr(value, name, None) for name in "ab"]
    for part in parts:
        if isinstance(part, ir.Expr) and not isinstance(value, ir.TensorLoad):
            yield from _of_windows(part, block, known, whole=False)


def _is_worth_it(value: Expr, windows: _Windows, block: SBlock, known: _Known, *, whole: bool) -> bool:
    work = _work(value, known)
    if work is None or not work.operations or not windows.moving:
        return False
    uses = prod(extent_of(axis) for axis in block.iter_vars) / prod(windows.extents)
    costs = WIDEST.costs
    fused = costs.operation if whole and isinstance(value, tirx.Mul) else 0  # a sum takes it for nothing
    reads = sum(windows.moving) if whole and len(windows.moving) > 1 else uses
    once = work.whole + costs.store + costs.operation * reads
    return MARGINS.gain_of_rewrite * uses * (work.whole - fused) > once


def _read_by_neighbours(value: Expr, known: _Known) -> list[TvmBuffer]:
    """The stages that a value reads at several places, and that take more to repeat than to store and load."""
    found, costs = [], WIDEST.costs
    loads = different_loads(node for node in expressions(value) if isinstance(node, ir.TensorLoad))
    for buffer, work in known.repeated:
        uses = sum(load.source.same_as(buffer) for load in loads)
        once = work.whole + costs.store + costs.operation * uses
        if uses > 1 and MARGINS.gain_of_rewrite * uses * work.whole > once:
            found.append(buffer)
    return found


def _windows(value: Expr, block: SBlock) -> _Windows | None:
    """The places that a value depends on; None where it does not depend on sums of two axes, or on axes, alone."""
    own = axes_of(value, block)
    spatial = [axis for axis in own if int(axis.iter_type) == int(tirx.IterVar.DataPar)]
    summed = [axis for axis in own if not is_one_of(axis, spatial)]
    if not own or any(not starts_at_zero(axis) for axis in block.iter_vars) or _depends_otherwise(value, own):
        return None
    places: list[tuple[IterVar, IterVar | None]] = []
    for axis in spatial:
        other = next((one for one in summed if _moves_alike(value, axis, one)), None)
        places.append((axis, other))
        summed = [one for one in summed if other is None or not one.same_as(other)]
    windows = _Windows((*places, *((axis, None) for axis in summed)))
    return windows if _is_inside(value, windows) else None


def _depends_otherwise(value: Expr, axes: Sequence[IterVar]) -> bool:
    """Whether a value depends on some of its axes other than by what it loads."""

    def constant(load: BufferLoad) -> Expr:
        return tirx.const(0, str(load.source.ty.dtype))

    rest = tvm_ffi.structural_map(value, (ir.TensorLoad, constant))
    return any(mentions(rest, axis.var) for axis in axes)


def _moves_alike(value: Expr, axis: IterVar, other: IterVar) -> bool:
    """Whether a value depends on the sum of two axes alone."""
    place = tirx.Var("place", axis.var.ty)
    for load in (node for node in expressions(value) if isinstance(node, ir.TensorLoad)):
        for index in load.indices:
            moved = simplified(with_places(index, {axis.var: place - other.var}))
            if mentions(moved, other.var):
                return False
    return True


def _is_inside(value: Expr, windows: _Windows) -> bool:
    """Whether a value reads inside its tensors at all places."""
    extents = zip(windows.places, windows.extents, strict=True)
    domain, at = Domain.of((axis.var, extent) for (axis, _), extent in extents), _first_terms(windows)
    return all(Access.of(with_places(load, at), domain).is_inside() for load in loads_in([value]))


def _first_terms(windows: _Windows) -> Mapping[Var, Expr]:
    """The first term of each window: there the axis of results is the sum of both."""
    return {other.var: tirx.const(0, str(other.var.ty.dtype)) for _, other in windows.places if other is not None}


def _value_at(value: Expr, windows: _Windows, name: str) -> StoredValue:
    """A value over the places of windows."""
    own = [axis for axis, _ in windows.places]
    axes: list[Axis] = [
        (variable(str(axis.var.name), str(axis.var.ty.dtype)), extent)
        for axis, extent in zip(own, windows.extents, strict=True)
    ]
    renamed = {axis.var: one for axis, (one, _) in zip(own, axes, strict=True)}

    def simple(load: BufferLoad) -> BufferLoad:
        return tirx.BufferLoad(load.source, [simplified(index) for index in load.indices])

    term = with_places(with_places(value, _first_terms(windows)), renamed)
    term = tvm_ffi.structural_map(term, [(ir.TensorLoad, simple)])
    out = tirx.decl_buffer([tirx.IntImm(str(one.ty.dtype), extent) for one, extent in axes], type_of(value), name)
    return StoredValue(tuple(own), ReductionStage(name, out, tuple(one for one, _ in axes), tuple(axes), (), term))


def _work(value: Expr, known: _Known) -> _Work | None:
    """The cycles of a value, and of stages that it reads and repeats; None for what is no floating-point number."""
    if not is_floating(value):
        return None
    operations, loads, costs = 0.0, 0.0, WIDEST.costs
    for node in _values(value):
        if isinstance(node, ir.Call):
            operations += costs.function
        elif isinstance(node, tirx.Div):
            operations += costs.division
        elif isinstance(node, _ARITHMETIC):
            operations += costs.operation
    for load in different_loads(node for node in _values(value) if isinstance(node, ir.TensorLoad)):
        repeated = known.of(load.source)
        operations += 0 if repeated is None else repeated.operations
        loads += costs.operation if repeated is None else repeated.loads
    return _Work(operations, loads)


def _values(value: Expr) -> Iterator[Expr]:
    """A value and its parts, without the indices of its loads."""
    yield value
    if isinstance(value, ir.TensorLoad):
        return
    named = (getattr(value, name, None) for name in ("a", "b", "value"))
    for part in value.args if isinstance(value, ir.Call) else named:
        if isinstance(part, ir.Expr) and not isinstance(value, (tirx.IntImm, tirx.FloatImm)):
            yield from _values(part)


def _has_condition(value: Expr) -> bool:
    """Whether a value depends on a condition: schedules skip the steps in which it does not hold."""
    return any(isinstance(node, _CONDITIONS) or is_branch(node) for node in expressions(value))
