"""Interleaved rows: two to four vectors whose elements take turns in memory are stored by one call.

With lanes across rows of three, as the colours of pixels, each store of a vector would be one of every third element.
Three of them fill the memory of three vectors, which need three permutations and six blends. Two, as the parts of
complex numbers, need two shuffles, and two more for eight lanes. Four, as the corners of boxes, need eight, or twelve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import tirx

from edgetune.affine.expressions import loads_in, with_places
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.lines import call
from edgetune.codegen.shuffles import FEWEST_LANES, fewest_lanes
from edgetune.codegen.strided_loads import loads_together
from edgetune.codegen.text import Lvalue
from edgetune.codegen.vector_calls import has_vector_form
from edgetune.tvm_types import BufferStore, Expr, Stmt

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter


def printed_turns(printer: StatementPrinter, statements: Sequence[Stmt]) -> int:
    """Emit the stores of vectors that `statements` begins with, if their elements take turns; how many those are.

    All values are computed before the first one is stored: none may load from the tensor.
    """
    turns = _turns(statements[0]) if statements else 0
    bound, run = _begun(statements, turns)
    found = [_base(printer, one, turns) for one in run]
    bases = [_without_bound(base, bound) for base in found if base is not None]
    if not bases or len(bases) < turns:
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
    c_type = printer.type(of, lanes)
    role = f"{printer.place(first.buffer).name}_turn"
    with loads_together(printer, [one.value for one in run]):
        names = [printer.context.temporary(c_type, printer.vector(one.value, 0, lanes), role) for one in run]
    function = printer.context.need(f"take_turns:{of.short}x{lanes}x{turns}")
    pointer = printer.pointer(first.buffer, (bases[0], 1), 0)
    printer.context.emit(call(function, pointer, *(Lvalue.of(name).address for name in names)))
    return len(bound) + turns


def _turns(statement: Stmt) -> int:
    """How many vectors take turns if `statement` stores the first of them; 0 for any other statement."""
    index = statement.indices[0] if isinstance(statement, tirx.BufferStore) and len(statement.indices) == 1 else None
    step = index.stride if isinstance(index, tirx.Ramp) else None
    return int(step.value) if isinstance(step, tirx.IntImm) and int(step.value) in FEWEST_LANES else 0


def _begun(statements: Sequence[Stmt], turns: int) -> tuple[list[Stmt], list[BufferStore]]:
    """The first stores of a sequence, as many as take turns, and the indices that are bound between them."""
    bound: list[Stmt] = []
    run: list[BufferStore] = []
    if not turns:
        return bound, run
    for one in statements:
        if isinstance(one, tirx.Bind) and run and not loads_in([one.value]) and element_and_lanes(one.value.ty)[1] == 1:
            bound.append(one)
        elif isinstance(one, tirx.BufferStore):
            run.append(one)
        else:
            break
        if len(run) == turns:
            return bound, run
    return [], []


def _without_bound(index: Expr, bound: Sequence[Stmt]) -> Expr:
    """An index in terms of what is bound before the first store."""
    for one in reversed(bound):
        index = with_places(index, {one.var: one.value})
    return index


def _base(printer: StatementPrinter, store: BufferStore, turns: int) -> Expr | None:
    """The first index of a vector that takes `turns` with others in a tensor; None for anything else."""
    if _turns(store) != turns:
        return None
    place, lanes = printer.place(store.buffer), element_and_lanes(store.value.ty)[1]
    fewest = fewest_lanes(place.of.dtype, turns)
    fits = fewest is not None and fewest <= lanes <= printer.context.lanes_limit
    in_memory = place.registers is None and place.lanes == 1
    return store.indices[0].base if fits and in_memory else None
