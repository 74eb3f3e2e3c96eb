"""Round trips through 8 bits: a value that a kernel quantises and dequantises again stays a whole float.

What QuantizeLinear rounds and clamps is a whole number before it becomes 8 bits, so that a DequantizeLinear in the same
kernel reads the float. The result is the same for all numbers, but that a zero may have a sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import with_places
from edgetune.graph.element_type import is_floating
from edgetune.graph.reduction_stage import ReductionStage, with_fields
from edgetune.tvm_types import BufferLoad, Expr, PrimFunc, SBlock, Stmt, TvmBuffer, Var

_NARROW = ("int8", "uint8")


def without_round_trips(function: PrimFunc) -> PrimFunc:
    """An unscheduled `function` whose dequantised values are those before they were 8 bits, where it has these."""
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize) or root.block.match_buffers:
        return function
    statements = list(root.block.body.seq) if isinstance(root.block.body, tirx.SeqStmt) else [root.block.body]
    stages: dict[TvmBuffer, _Stage] = {}
    made: list[Stmt] = []
    for statement in statements:
        stage = _stage(statement)
        value = None if stage is None else _without(stage, stages)
        if stage is not None and value is not None:
            stage = _Stage(stage.block, stage.axes, value)
            made.append(stage.statement())
        else:
            made.append(statement)
        if stage is not None:
            stages[stage.block.body.buffer] = stage
    if all(new.same_as(old) for new, old in zip(made, statements, strict=True)):
        return function
    kept = _read(made, function)
    written = {_block(one).writes[0].source for one in kept}
    buffers = [buffer for buffer in root.block.alloc_buffers if buffer in written]
    body = tirx.SeqStmt(kept) if len(kept) > 1 else kept[0]
    block = with_fields(root.block, body=body, alloc_buffers=buffers)
    whole = s_tir.SBlockRealize(root.iter_values, root.predicate, block)
    return s_tir.renew_defs(tirx.PrimFunc(function.params, whole, function.ret_type, function.attrs))


@dataclass(frozen=True)
class _Stage:
    """A stage that stores one value for each place of its axes."""

    block: SBlock
    axes: tuple[Var, ...]
    value: Expr

    def at(self, indices: Sequence[Expr]) -> Expr:
        """Its value at a place."""
        return with_places(self.value, dict(zip(self.axes, indices, strict=True)))

    def statement(self) -> Stmt:
        """Its loops."""
        axes = tuple((axis.var, int(axis.dom.extent)) for axis in self.block.iter_vars)
        return ReductionStage(
            str(self.block.name_hint), self.block.body.buffer, self.axes, axes, (), self.value
        ).statement()


def _block(statement: Stmt) -> SBlock:
    while isinstance(statement, tirx.For):
        statement = statement.body
    return statement.block


def _stage(statement: Stmt) -> _Stage | None:
    """The stage that a statement is; None if it reduces, or stores in another order than that of its axes."""
    while isinstance(statement, tirx.For):
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize) or statement.block.init is not None:
        return None
    block, store = statement.block, statement.block.body
    if not isinstance(store, tirx.BufferStore) or len(store.indices) != len(block.iter_vars):
        return None
    axes = tuple(axis.var for axis in block.iter_vars)
    plain = all(index.same_as(axis) for index, axis in zip(store.indices, axes, strict=True))
    return _Stage(block, axes, store.value) if plain else None


def _without(stage: _Stage, stages: dict[TvmBuffer, _Stage]) -> Expr | None:
    """The value of a stage without round trips; None if it has none."""
    found: list[Expr] = []

    def changed(cast: Expr) -> Expr:
        whole = _whole(cast, stages) if is_floating(cast) else None
        found.extend([] if whole is None else [whole])
        return cast if whole is None else whole

    value = tvm_ffi.structural_map(stage.value, (tirx.Cast, changed), order="post")
    return value if found else None


def _whole(cast: Expr, stages: dict[TvmBuffer, _Stage]) -> Expr | None:
    """float(int32(int8(x)) - zero point) as x - zero point, where x is whole and in the range of 8 bits."""
    value, zero = _followed(cast.value, stages), 0
    if isinstance(value, tirx.Sub | tirx.Add) and isinstance(value.b, tirx.IntImm):
        zero = int(value.b.value) * (1 if isinstance(value, tirx.Sub) else -1)
        value = _followed(value.a, stages)
    widened = isinstance(value, tirx.Cast) and str(value.ty.dtype) == "int32"
    narrow = _followed(value.value, stages) if widened else value
    if not isinstance(narrow, tirx.Cast) or str(narrow.ty.dtype) not in _NARROW:
        return None
    number = narrow.value
    if number.ty != cast.ty or not _is_clamped(number, str(narrow.ty.dtype), stages):
        return None
    return number - tirx.const(float(zero), str(cast.ty.dtype)) if zero else number


def _followed(value: Expr, stages: dict[TvmBuffer, _Stage]) -> Expr:
    """What the stages before store at the place that is loaded, as far as it is another value."""
    while isinstance(value, ir.TensorLoad) and value.source in stages:
        value = stages[value.source].at(value.indices)
    return value


def _is_clamped(value: Expr, dtype: str, stages: dict[TvmBuffer, _Stage]) -> bool:
    """Whether a value is rounded and between the ends of a type of 8 bits."""
    ends = np.iinfo(dtype)
    upper = _bounded(value, tirx.Min, stages)
    lower = None if upper is None else _bounded(upper[0], tirx.Max, stages)
    if upper is None or lower is None or lower[1] < ends.min or upper[1] > ends.max:
        return False
    number = _followed(lower[0], stages)
    if isinstance(number, tirx.Add) and isinstance(number.b, tirx.FloatImm) and float(number.b.value).is_integer():
        number = _followed(number.a, stages)
    return isinstance(number, ir.Call) and str(getattr(number.op, "name", "")) == "tirx.nearbyint"


def _bounded(value: Expr, kind: type[Expr], stages: dict[TvmBuffer, _Stage]) -> tuple[Expr, float] | None:
    """A value and the whole number that bounds it."""
    found = _followed(value, stages)
    if not isinstance(found, kind) or not isinstance(found.b, tirx.FloatImm):
        return None
    bound = float(found.b.value)
    return (found.a, bound) if bound.is_integer() else None


def _read(statements: Sequence[Stmt], function: PrimFunc) -> list[Stmt]:
    """The statements without those whose results nobody reads."""
    kept: list[Stmt] = []
    needed: list[BufferLoad | TvmBuffer] = list(function.params)
    for statement in reversed(statements):
        block = _block(statement)
        if any(write.source.same_as(one) for write in block.writes for one in needed):
            kept.insert(0, statement)
            needed += [region.source for region in block.reads]
    return kept
