"""Divided rows: a loop over a row whose schedule asks for it becomes the parts of `index_sets.py`, one after another.

A condition on other axes alone is tested once a row.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import s_tir, tirx

from edgetune.affine.expressions import with_places
from edgetune.schedule.sketches.idle_steps import with_own_variables
from edgetune.schedule.sketches.index_sets import (
    DIVIDED_ROW,
    MOST_CONDITIONS,
    RowPart,
    cases_of,
    is_whole,
    parts_of,
)
from edgetune.schedule.sketches.remainders import peel_remainder
from edgetune.tvm_types import BufferStore, Expr, For, Stmt, TvmBuffer


def parts_of_row(loop: For, parameters: Sequence[TvmBuffer] | None) -> Stmt:
    """The parts of a row that a schedule has asked for; `loop` itself where it has not.

    For `parameters` see `peel_remainder`.
    """
    if DIVIDED_ROW not in loop.annotations:
        return loop
    most = int(loop.annotations[DIVIDED_ROW])
    annotations = {key: value for key, value in loop.annotations.items() if key != DIVIDED_ROW}
    plain = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, annotations=annotations)
    realize = loop.body
    if not isinstance(realize, s_tir.SBlockRealize) or not is_whole(loop, realize):
        return plain
    axes = list(realize.block.iter_vars)
    values = {axis.var: value for axis, value in zip(axes, realize.iter_values, strict=True)}

    def divided(store: BufferStore, known: Sequence[Expr]) -> list[Stmt] | None:
        cases = cases_of(store, axes) if len(known) < MOST_CONDITIONS else []
        if not cases:
            parts = parts_of(store, axes, known)
            return parts and [_statement(plain, part, most, parameters) for part in parts]
        result: list[Stmt] = []
        for condition, case in cases:
            parts = divided(case, [*known, condition])
            if parts is None:
                return None
            result.append(tirx.IfThenElse(with_places(condition, values), _sequence(parts), None))
        return result

    found = divided(realize.block.body, ())
    return plain if found is None else _sequence(found)


def _statement(row: For, part: RowPart, most: int, parameters: Sequence[TvmBuffer] | None) -> Stmt:
    """One part of a row: in vectors and a remainder, or element by element."""
    variable, name = row.loop_var, f"from_{part.first}"
    if not part.neighbours:
        place = _at(row, part.first if part.extent == 1 else variable + part.first)
        loops = [] if part.extent == 1 else [_loop(variable, part.extent, tirx.ForKind.SERIAL, row.body)]
        return with_own_variables(loops, place, part.store, name)
    lanes = min(most, 1 << (part.extent.bit_length() - 1))
    vector, lane = tirx.Var(variable.name, variable.ty), tirx.Var(f"{variable.name}_lane", variable.ty)
    element = vector * lanes + lane
    place = _at(row, element + part.first)
    inner = _loop(lane, lanes, tirx.ForKind.VECTORIZED, place)
    count = -(-part.extent // lanes)
    loop = with_own_variables([_loop(vector, count, tirx.ForKind.SERIAL, inner), inner], place, part.store, name)
    if part.extent % lanes == 0:
        return loop
    return peel_remainder(_with_condition(loop, part.extent), parameters)


def _with_condition(loop: For, extent: int) -> For:
    """Vectors under the condition that an element is one of the first `extent`."""
    inner = loop.body
    element = loop.loop_var * inner.extent + inner.loop_var
    realize = s_tir.SBlockRealize(inner.body.iter_values, element < extent, inner.body.block)
    lanes = tirx.For(inner.loop_var, inner.min, inner.extent, inner.kind, realize)
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, lanes)


def _at(row: For, place: Expr | int) -> Stmt:
    """The block of a row at a place of its axis."""
    realize = row.body
    last = tirx.IntImm(str(row.loop_var.ty.dtype), place) if isinstance(place, int) else place
    return s_tir.SBlockRealize([*list(realize.iter_values)[:-1], last], True, realize.block)


def _loop(variable: Expr, extent: int, kind: int, body: Stmt) -> For:
    dtype = str(variable.ty.dtype)
    return tirx.For(variable, tirx.IntImm(dtype, 0), tirx.IntImm(dtype, extent), kind, body)


def _sequence(parts: Sequence[Stmt]) -> Stmt:
    return parts[0] if len(parts) == 1 else tirx.SeqStmt(list(parts))
