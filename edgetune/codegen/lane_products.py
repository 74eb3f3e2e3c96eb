"""Lane products: products of bytes of which each lane has both factors, added to sums in registers of their own.

`sums[o] += x[o] * w[o]` for four lanes o is SXTB16, SMLABB and SMLATT of ARM, on words that hold the bytes of all. As
for dot products, the program says no more than this sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tvm import tirx

from edgetune.affine.expressions import joined_by
from edgetune.codegen.dot_products import is_own, read_at, widened_load
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.lines import JoinableCall, Line, LineKind, joinable
from edgetune.codegen.text import Code
from edgetune.codegen.work import LOAD
from edgetune.target.isa.vector_instructions import RESULTS_OF_LANES, WindowSize
from edgetune.tvm_types import BufferLoad, BufferStore, Expr

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter

_FACTORS = 2


def added_lane_products(
    printer: StatementPrinter, s: BufferStore, start: tuple[Expr, int], parts: Sequence[tuple[int, int]]
) -> bool:
    """Print all lanes of `acc = acc + product`, where each lane is a register of its own; False for any other store."""
    alone = all(width == 1 for _, width in parts) and len(parts) == RESULTS_OF_LANES
    if not alone or not printer.context.vectors.lane_products or not isinstance(s.value, tirx.Add):
        return False
    place = printer.place(s.buffer)
    registers = [name for first, _ in parts if (name := printer.register(place, start, first, 1)) is not None]
    factors = [factors_of_lanes(printer, term) for term in joined_by(tirx.Add, s.value) if not is_own(term, s)]
    own = [term for term in joined_by(tirx.Add, s.value) if is_own(term, s)]
    found = factors[0] if len(factors) == 1 and len(own) == 1 else None
    if len(registers) != len(parts) or element_and_lanes(s.value.ty)[0].short != "i32" or found is None:
        return False
    function = f"{STEM}_{element_and_lanes(found[1][0].ty)[0].short}"
    if WindowSize(1, function) not in printer.context.vectors.lane_products:
        return False
    addresses = [printer.pointer(load.source, at, 0) for load, at in found]
    sources = tuple(read_at(one, LOAD) for one in addresses)
    made = JoinableCall(function, "i32", tuple(registers), (), sources, tuple(one.place for one in addresses))
    printer.context.emit(joinable(printer.context.need(made.snippet), made))
    return True


def factors_of_lanes(printer: StatementPrinter, term: Expr) -> tuple[Factor, Factor] | None:
    """The loads of the integers of neighbouring lanes that a term multiplies, the data first, with their places.

    The data are bytes. None for other terms.
    """
    loads = [widened_load(one) for one in (term.a, term.b)] if isinstance(term, tirx.Mul) else []
    found: list[Factor] = []
    for load in loads:
        start = None if load is None else printer.contiguous(load.source, load.indices)
        if load is None or start is None or element_and_lanes(load.ty)[1] == 1:
            return None
        if printer.place(load.source).registers is not None:
            return None
        index, factor = start
        found.append((load, (printer.context.analyzer.simplify(index * factor), 1)))
    kinds = [element_and_lanes(load.ty)[0].short for load, _ in found]
    if len(found) != _FACTORS or "i8" not in kinds:
        return None
    return (found[0], found[1]) if kinds[0] == "i8" else (found[1], found[0])


def in_windows(lines: Sequence[Line], need: Callable[[str], str], known: Collection[WindowSize]) -> list[Line]:
    """Lines in which products of lanes for taps at equal distances, one after the other, are one call.

    `known` are the windows for which there are functions, `need` requests the snippet of a call and returns its name.
    """
    if not known:
        return list(lines)
    found: list[Line] = []
    left = list(lines)
    while left:
        calls = _run(left)
        taps = max((one.taps for one in known if calls and one.function == calls[0].function), default=1)
        while taps > 1 and _apart(calls[:taps], taps) is None:
            taps -= 1
        apart = _apart(calls[:taps], taps) if taps > 1 else None
        if apart is None or WindowSize(taps, calls[0].function) not in known:
            found.append(left[0])
            left = left[1:]
            continue
        first = calls[0]
        operands = (first.sources[0], Code(str(apart)), first.sources[1])
        made = JoinableCall(f"{first.function}_{taps}", first.kind, first.variables, (), operands)
        found.append(replace(joinable(need(made.snippet), made), depth=left[0].depth))
        left = left[taps:]
    return found


def _run(lines: Sequence[Line]) -> list[JoinableCall]:
    """The calls for products of the same lanes at the beginning of `lines`."""
    calls: list[JoinableCall] = []
    for line in lines:
        made = line.call
        if made is None or not made.function.startswith(STEM) or line.kind is not LineKind.STATEMENT:
            break
        if calls and (made.snippet, made.variables) != (calls[0].snippet, calls[0].variables):
            break
        calls.append(made)
    return calls


def _apart(calls: Sequence[JoinableCall], taps: int) -> int | None:
    """How far the data of taps lie apart, in bytes, where their factors lie in turn; None where they do not."""
    if len(calls) < taps:
        return None
    bases = [(place.variable, place.at[0]) for call in calls for place in call.places]
    data, factors = ([call.places[number].at[1] for call in calls] for number in (0, 1))
    apart = data[1] - data[0]
    turns = [place - factors[0] for place in factors] == [RESULTS_OF_LANES * number for number in range(taps)]
    even = [place - data[0] for place in data] == [apart * number for number in range(taps)]
    alike = bases == bases[:2] * taps
    return apart if turns and even and alike and 0 <= apart * (taps - 1) <= _REACH else None


STEM = "lane_products"
_REACH = 4000
"""Most bytes from the first tap to the last one, within the offsets of LDR."""

Factor = tuple[BufferLoad, tuple[Expr, int]]
