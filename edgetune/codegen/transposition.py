"""Transpositions: two loops that copy rows as columns become one call, which turns squares of vectors in registers.

A scalar loop takes a load and a store for each element, and one of both touches another line of the cache each time.
Eight vectors of eight lanes turn by 24 shuffles, sixteen of sixteen by 64. Only copies of float32 become calls; loops
may have any extents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, tirx

from edgetune.affine.linear import Linear, linear
from edgetune.codegen.contiguous_access import total_of
from edgetune.codegen.lines import call
from edgetune.codegen.literals import digits
from edgetune.codegen.shuffles import has_shuffles
from edgetune.codegen.text import ATOM, Text, code
from edgetune.codegen.unrolling import extent_of
from edgetune.graph.element_type import type_of
from edgetune.tvm_types import BufferStore, Expr, For, Stmt, Var

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter

MOST_LANES = 8
"""Lanes of the vectors for rows and columns of any length. Longer ones serve whole squares alone."""
_LONGEST_LANES = 16
_FEWEST_LANES = 4
_FEWEST_SHARED = 256  # of a loop that threads share: each of 16 threads has a square of the longest lanes
_FEWEST_ELEMENTS = 64
_SAME_SET = 1024  # elements between lines of one set, where an L1 has 64 of them
_SHORT_ROW = 64  # of the source: the rows of a run stay in L1


@dataclass(frozen=True)
class Copy:
    """`to[i * to_row + j] = from[j * from_row + i]`: the store, its loops, and the two distances.

    `source` and `target` are the indices without the terms of the loops over i and j.
    """

    store: BufferStore
    rows: For
    columns: For
    to_row: int
    from_row: int
    source: Linear
    target: Linear


def printed_transposition(printer: StatementPrinter, loop: For) -> bool:
    """Emit two nested loops that transpose as one call; False, and nothing, for any other loop."""
    lanes = min(MOST_LANES, printer.context.lanes_limit)
    found = _copy(loop) if lanes >= _FEWEST_LANES else None
    if found is None or not _worthwhile(found, lanes):
        return False
    value = found.store.value
    places = [printer.place(buffer) for buffer in (found.store.buffer, value.source)]
    if any(place.registers is not None or place.of.short != "f32" or place.lanes != 1 for place in places):
        return False
    if printer.survey.base(found.store.buffer) == printer.survey.base(value.source):
        return False
    shared = printer.shared
    own = shared is not None and any(one.loop_var.same_as(shared.variable) for one in (found.rows, found.columns))
    if own and shared is not None and shared.across is not None:
        return False  # a thread's part of the shared loop depends on the one around it
    dtype = str(loop.loop_var.ty.dtype)
    extents: list[Text] = []
    starts = [total_of(found.target, dtype), total_of(found.source, dtype)]
    for one, steps in ((found.rows, (found.to_row, 1)), (found.columns, (1, found.from_row))):
        shared = printer.shared
        if shared is None or not one.loop_var.same_as(shared.variable):
            extents.append(digits(extent_of(one) or 0))
            continue
        first, past = printer.scalar(shared.first), printer.scalar(shared.past_last)
        extents.append(Text(code("{} - {}", past, first.at(ATOM))))
        starts = [start + shared.first * step for start, step in zip(starts, steps, strict=True)]
    to, origin = (
        printer.element_text(buffer, [start])
        for buffer, start in zip((found.store.buffer, value.source), starts, strict=True)
    )
    if _long(found, extents) and printer.context.lanes_limit >= _LONGEST_LANES:
        lanes = _LONGEST_LANES
    kind = _kind(found, lanes)
    if kind == "transpose" and _shares_sets(found, lanes):
        kind = "transpose_runs"
        if found.to_row % _SAME_SET == 0 and found.from_row <= _SHORT_ROW:
            lanes = min(lanes, MOST_LANES)
    name = printer.context.need(f"{kind}:f32x{lanes}")
    elements = (extent_of(found.rows) or 0) * (extent_of(found.columns) or 0)
    operands = to.address, found.to_row, origin.address, found.from_row, *extents
    printer.context.emit(call(name, *operands, elements=elements))
    return True


def _copy(outer: For) -> Copy | None:
    """The transposition that two loops are; None for any others."""
    inner = outer.body
    if not isinstance(inner, tirx.For) or not (_counts(outer) and _counts(inner)):
        return None
    store, bound = _alone(inner.body)
    if store is None or not isinstance(store.value, ir.TensorLoad) or len(store.indices) != 1:
        return None
    load = store.value
    if len(load.indices) != 1 or not all(has_shuffles(type_of(one)) for one in (store.buffer, load.source)):
        return None
    target, source = _form(store.indices[0], bound), _form(load.indices[0], bound)
    if target is None or source is None:
        return None
    for rows, columns in ((outer, inner), (inner, outer)):
        i, j = rows.loop_var, columns.loop_var
        to_row, from_row = target.factors.get(i, 0), source.factors.get(j, 0)
        if target.factors.get(j) == 1 and source.factors.get(i) == 1 and to_row > 1 and from_row > 1:
            return Copy(store, rows, columns, to_row, from_row, _without(source, i, j), _without(target, i, j))
    return None


def _kind(copy: Copy, lanes: int) -> str:
    """The snippet that does it: for squares of vectors, or for rows of the source or of the result that are shorter."""
    rows, columns = extent_of(copy.rows) or 0, extent_of(copy.columns) or 0
    if min(rows, columns) >= lanes:
        return "transpose"
    width = "quads" if min(rows, columns) <= lanes // 2 and lanes == MOST_LANES else "rows"
    return f"{'split' if rows < columns else 'join'}_{width}"


def _shares_sets(copy: Copy, lanes: int) -> bool:
    """Whether the lines of `transpose` that wait to be filled are too many for the sets of L1 in which they lie.

    Vectors of eight lanes leave 16 lines half full, those of sixteen fill a line of each of 64 rows in turns. A set has
    8 or 12 lines. With squares of four lanes, 8 lines wait, in larger sets.
    """
    apart = {8: _SAME_SET, 16: _SAME_SET // 2}.get(lanes)
    return apart is not None and copy.to_row % apart == 0 and (extent_of(copy.rows) or 0) >= _LONGEST_LANES


def _long(copy: Copy, extents: Sequence[Text]) -> bool:
    """Whether rows and columns fill squares of the longest lanes; an extent that varies is a thread's share."""
    found = [(extent_of(loop) or 0, one.constant) for loop, one in zip((copy.rows, copy.columns), extents, strict=True)]
    return all(extent >= (_FEWEST_SHARED if known is None else _LONGEST_LANES) for extent, known in found)


def _worthwhile(copy: Copy, lanes: int) -> bool:
    rows, columns = extent_of(copy.rows) or 0, extent_of(copy.columns) or 0
    if rows * columns < _FEWEST_ELEMENTS or max(rows, columns) < lanes or min(rows, columns) < 2:
        return False
    return columns >= lanes or copy.to_row == columns  # rows that are short in the result lie side by side


def _counts(loop: For) -> bool:
    zero = isinstance(loop.min, tirx.IntImm) and int(loop.min.value) == 0
    return zero and loop.step is None and int(loop.kind) == int(tirx.ForKind.SERIAL) and extent_of(loop) is not None


def _alone(body: Stmt) -> tuple[BufferStore | None, Mapping[Var, Expr]]:
    """The only store of a body, and what the variables are that are bound before it."""
    *before, last = body.seq if isinstance(body, tirx.SeqStmt) else [body]
    if not isinstance(last, tirx.BufferStore) or not all(isinstance(one, tirx.Bind) for one in before):
        return None, {}
    return last, {one.var: one.value for one in before}


def _form(index: Expr, bound: Mapping[Var, Expr]) -> Linear | None:
    """An index as a linear form, without bound variables."""
    form = linear(index)
    for variable in list(form.factors) if form is not None else ():
        value = next((value for one, value in bound.items() if one.same_as(variable)), None)
        if form is None or value is None:
            continue
        inner = _form(value, bound)
        if inner is None:
            return None
        form = _without(form, variable).plus(inner.times(form.factors[variable]))
    return form


def _without(form: Linear, *variables: Var) -> Linear:
    return Linear(
        form.constant, {v: f for v, f in form.factors.items() if not any(v.same_as(one) for one in variables)}
    )
