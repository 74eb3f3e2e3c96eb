"""Strided loads: vectors of every second to fourth float32, or of floats in reverse, are whole vectors and shuffles.

Complex numbers have `x[2 * i]` and `x[2 * i + 1]` side by side: two loads and two shuffles make a vector of each. A row
that is read from its end is one load and a shuffle. No load passes the last element that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from tvm import ir, tirx

from edgetune.affine.domain import simplified
from edgetune.affine.expressions import loads_in, operands
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.intrinsics import operator
from edgetune.codegen.lines import call, declaration, other
from edgetune.codegen.names import plain_name
from edgetune.codegen.shuffles import FEWEST_LANES
from edgetune.codegen.text import Address, Lvalue, Text, code, listed
from edgetune.tvm_types import Expr

if TYPE_CHECKING:
    from edgetune.codegen.vectors import VectorPrinter

_SNIPPETS = {2: "every_second", 3: "every_third", 4: "every_fourth", -1: "backwards"}
"""Snippets that load every second, third or fourth float, or floats in reverse, by the step."""
_FEWEST_LANES = {**FEWEST_LANES, -1: 4}
"""Lanes from which on they take fewer instructions than loads one by one."""

_numbers = count()


def strided(printer: VectorPrinter, load: Expr, width: int) -> tuple[Expr, int] | None:
    """The first index and the step of a load of `width` lanes that a snippet makes; None for any other load."""
    place, index = printer.place(load.source), printer.flat_index(load.source, load.indices)
    known = printer.context.variables.get(index) if isinstance(index, ir.Var) else None
    index = known if isinstance(known, tirx.Ramp) else index
    if place.of.short != "f32" or place.registers is not None or place.lanes != 1:
        return None
    if not isinstance(index, tirx.Ramp) or not isinstance(index.stride, tirx.IntImm):
        return None
    step = int(index.stride.value)
    return (index.base, step) if width >= _FEWEST_LANES.get(step, width + 1) else None


def pairs_in(printer: VectorPrinter, values: Sequence[Expr]) -> frozenset[str]:
    """The addresses of neighbouring pairs of floats of which `values` load both in any case."""
    found: dict[str, tuple[Expr, Expr]] = {}
    for load in _certain_loads(values):
        lanes = min(element_and_lanes(load.ty)[1], printer.context.lanes_limit)
        known = strided(printer, load, lanes) if lanes > 1 else None
        if known is not None and known[1] == 2 and not loads_in([known[0]]):
            found.setdefault(_address(printer, load, known[0], 0), (load, known[0]))
    pairs = set()
    for first, (load, base) in found.items():
        if _address(printer, load, base - 1, 0) in found:
            continue
        begin, step = first, 0
        while begin in found and _address(printer, load, base + (step + 1), 0) in found:
            pairs.add(begin)
            step += 2
            begin = _address(printer, load, base + step, 0)
    return frozenset(pairs)


@contextmanager
def loads_together(printer: VectorPrinter, values: Sequence[Expr]) -> Iterator[None]:
    """`values` are computed inside before any is stored, and so share their loads."""
    outer = printer.pairs, printer.together
    printer.pairs, printer.together = pairs_in(printer, values), next(_numbers)
    try:
        yield
    finally:
        printer.pairs, printer.together = outer


def printed_strided(printer: VectorPrinter, load: Expr, start: tuple[Expr, int], first: int, width: int) -> Text:
    """Lanes from `first` on of a load of elements of a tensor, with `start` the first index and the step.

    Vectors that are in scope already are not loaded again, unless the kernel may have stored to the tensor since.
    """
    base, step = start
    place, kind = printer.place(load.source), _SNIPPETS[step]
    c_type = printer.type(element_and_lanes(load.ty)[0], width)
    here = printer.together if place.written or loads_in([base]) else -1
    shared = printer.context.shared if here is not None else {}

    def key(index: Expr) -> str:
        return f"{kind} {here} {c_type} {_address(printer, load, index, step * first)}"

    def pointer_to(index: Expr, first: int) -> Address:
        plain = index if index is base else simplified(index)  # keeps the names of offsets
        return printer.pointer(load.source, (plain, 1), first)

    if key(base) in shared:
        return Text(shared[key(base)])
    for begin in (base, base - 1) if here is not None and step == 2 and printer.pairs else ():
        if _address(printer, load, begin, 0) in printer.pairs:
            names = [printer.context.names.unique(f"{place.name}_{word}") for word in ("even", "odd")]
            printer.context.emit(other(code("{} {};", c_type, listed(names))))
            function, pointer = printer.context.need(f"pairs:{c_type}"), pointer_to(begin, step * first)
            printer.context.emit(call(function, pointer, *(Lvalue.of(name).address for name in names)))
            shared[key(begin)], shared[key(begin + 1)] = names
            return Text(shared[key(base)])
    value = printer.context.local(plain_name(str(load.source.name)) if step > 2 else kind, load)
    pointer = pointer_to(base, step * first) if step > 0 else pointer_to(base - (width - 1), step * first)
    printer.context.emit(declaration(c_type, value))
    printer.context.emit(call(printer.context.need(f"{kind}:{c_type}"), pointer, Lvalue.of(value).address))
    shared[key(base)] = value
    return Text(value)


def _certain_loads(values: Sequence[Expr]) -> Iterator[Expr]:
    """The loads that run whatever branches decide: one inside of a branch may lie outside of its tensor."""
    for value in values:
        if isinstance(value, ir.TensorLoad):
            yield value
        else:
            branches = isinstance(value, ir.Call) and operator(value) == "if_then_else"
            yield from _certain_loads(value.args[:1] if branches else operands(value))


def _address(printer: VectorPrinter, load: Expr, index: Expr, first: int) -> str:
    return printer.pointer(load.source, (printer.context.analyzer.simplify(index), 1), first)
