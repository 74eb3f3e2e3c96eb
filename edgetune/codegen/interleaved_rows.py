"""Interleaved rows: three vectors whose elements take turns in memory are stored by one call.

With lanes across rows of three, as the colours of pixels, each store of a vector would be one of every third element.
Three of them fill the memory of three vectors, which need three permutations and six blends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import tirx

from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.traverse import loads_in
from edgetune.codegen.vector_calls import has_vector_form
from edgetune.graph.reduction_stage import with_places
from edgetune.graph.tvm_types import BufferStore, Expr, Stmt

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter

_TURNS = 3
_FEWEST_LANES = 8


def printed_turns(printer: StatementPrinter, statements: Sequence[Stmt]) -> int:
    """Emit the stores of vectors that `statements` begins with, if their elements take turns; how many those are.

    All values are computed before the first one is stored: none may load from the tensor.
    """
    bound, run = _begun(statements)
    found = [_base(printer, one) for one in run]
    bases = [_without_bound(base, bound) for base in found if base is not None]
    if len(bases) < _TURNS:
        return 0
    first = run[0]
    lanes = element_and_lanes(first.value.ty)[1]
    same = all(one.buffer.same_as(first.buffer) and element_and_lanes(one.value.ty)[1] == lanes for one in run)
    analyzer = printer.context.analyzer
    if not same or not all(analyzer.can_prove_equal(base - bases[0], number) for number, base in enumerate(bases)):
        return 0
    stored = printer.survey.base(first.buffer)
    loads = loads_in([one.value for one in run])
    if any(printer.survey.base(load.source) == stored for load in loads):
        return 0
    if not all(has_vector_form(printer, one.value) for one in run):
        return 0
    for one in bound:
        printer.bind(one.var, one.value)
    of = element_and_lanes(first.value.ty)[0]
    outer, printer.strided_loads = printer.strided_loads, {}
    c_type = printer.type(of, lanes)
    role = f"{printer.place(first.buffer).name}_turn"
    names = [printer.temporary(c_type, printer.vector(one.value, 0, lanes).code, role) for one in run]
    printer.strided_loads = outer
    call = printer.context.need(f"take_turns:f32x{lanes}x{_TURNS}")
    pointer = printer.pointer(first.buffer, (bases[0], 1), 0)
    printer.context.emit(f"{call}({pointer}, {', '.join(f'&{name}' for name in names)});")
    return len(bound) + _TURNS


def _begun(statements: Sequence[Stmt]) -> tuple[list[Stmt], list[BufferStore]]:
    """The first stores of a sequence, as many as take turns, and the indices that are bound between them."""
    bound: list[Stmt] = []
    run: list[BufferStore] = []
    for one in statements:
        if isinstance(one, tirx.Bind) and run and not loads_in([one.value]) and element_and_lanes(one.value.ty)[1] == 1:
            bound.append(one)
        elif isinstance(one, tirx.BufferStore):
            run.append(one)
        else:
            break
        if len(run) == _TURNS:
            return bound, run
    return [], []


def _without_bound(index: Expr, bound: Sequence[Stmt]) -> Expr:
    """An index in terms of what is bound before the first store."""
    for one in reversed(bound):
        index = with_places(index, {one.var: one.value})
    return index


def _base(printer: StatementPrinter, store: BufferStore) -> Expr | None:
    """The first index of a store of a whole vector to every third float of a tensor; None for anything else."""
    if len(store.indices) != 1:
        return None
    index, place = store.indices[0], printer.place(store.buffer)
    if not isinstance(index, tirx.Ramp) or not isinstance(index.stride, tirx.IntImm):
        return None
    lanes = element_and_lanes(store.value.ty)[1]
    fits = _FEWEST_LANES <= lanes <= printer.context.lanes_limit
    in_memory = place.of.short == "f32" and place.registers is None and place.lanes == 1
    return index.base if int(index.stride.value) == _TURNS and fits and in_memory else None
