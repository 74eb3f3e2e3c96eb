"""Widened words: copies of bytes as numbers of 16 bits, of which a core without vectors widens four at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import ir, tirx

from edgetune.codegen.dot_products import read_at
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.lines import call
from edgetune.codegen.work import LOAD
from edgetune.tvm_types import BufferStore, Expr

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter

_NUMBERS = 4


def widened_word(printer: StatementPrinter, s: BufferStore, start: tuple[Expr, int], lanes: int) -> bool:
    """Print a store of bytes as numbers of 16 bits, four at a time; False for others, or without instructions."""
    load = s.value.value if isinstance(s.value, tirx.Cast) else None
    if lanes % _NUMBERS or 1 not in printer.context.vectors.widen_word or not isinstance(load, ir.TensorLoad):
        return False
    kinds = [element_and_lanes(one.ty)[0].short for one in (s.value, load)]
    at = printer.contiguous(load.source, load.indices)
    in_memory = all(printer.place(buffer).registers is None for buffer in (s.buffer, load.source))
    if kinds != ["i16", "i8"] or at is None or not in_memory:
        return False
    function = printer.context.need("widen_word:i16")
    for first in range(0, lanes, _NUMBERS):
        source = read_at(printer.pointer(load.source, at, first), LOAD)
        printer.context.emit(call(function, printer.pointer(s.buffer, start, first), source))
    return True
