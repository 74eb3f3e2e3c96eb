"""Lane windows: results of a depthwise convolution, from the bias of their sums to their bytes, as one call.

Lanes of 32 bits that keep the sums in between are no vectors of neighbours where instructions widen even and odd lanes
apart. So the sum of a window first becomes a part of the statement that scales it: nothing else reads it. What is
printed for that statement is one function, which keeps lanes in the order that its instructions like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import is_among, joined_by
from edgetune.codegen.dot_products import RESULTS_AT_A_TIME, constant_distance, is_own, read_at
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.intrinsics import scale_address, table_load
from edgetune.codegen.lane_products import Factor, factors_of_lanes
from edgetune.codegen.lines import call
from edgetune.codegen.narrowing import narrowing
from edgetune.codegen.text import Code
from edgetune.codegen.traverse import flattened
from edgetune.codegen.work import LOAD
from edgetune.target.isa.vector_instructions import RESULTS_OF_WINDOW, Window
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, PrimFunc, Stmt, TvmBuffer

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter

STEM = "lane_window"
_REACH = 127  # bytes from the middle of a row to its taps
_MOST_APART = 4000  # bytes between rows, and between taps that are out of reach


def sums_in_place(function: PrimFunc) -> Stmt:
    """The body of a lowered function, in which sums of a window's lanes are parts of the statements that read them."""
    body = function.body
    if int((function.attrs or {}).get(RESULTS_AT_A_TIME, 0)) != RESULTS_OF_WINDOW:
        return body
    loads: Counter[TvmBuffer] = Counter()
    stores: Counter[TvmBuffer] = Counter()
    tvm_ffi.structural_walk(body, (ir.TensorLoad, lambda load: loads.update([load.source])))
    tvm_ffi.structural_walk(body, (tirx.BufferStore, lambda store: stores.update([store.buffer])))
    own = {buffer: (loads[buffer], stores[buffer]) for buffer in stores if not is_among(buffer, function.params)}
    inside: set[TvmBuffer] = set()
    body = tvm_ffi.structural_map(body, (tirx.SeqStmt, lambda one: _inside(one, own, inside)), order="post")
    return tvm_ffi.structural_map(body, (tirx.SeqStmt, lambda one: _without(one, inside)), order="post")


def _without(sequence: Stmt, unused: set[TvmBuffer]) -> Stmt:
    """A sequence without the allocations of what is no longer used."""
    left = [one for one in sequence.seq if not (isinstance(one, tirx.AllocBuffer) and one.buffer in unused)]
    if len(left) == len(sequence.seq):
        return sequence
    return left[0] if len(left) == 1 else tirx.SeqStmt(left)


def _inside(sequence: Stmt, own: Mapping[TvmBuffer, tuple[int, int]], inside: set[TvmBuffer]) -> Stmt:
    """`own` has the loads and the stores of tensors that are no parameters: all of them must be in the sequence."""
    statements = flattened(sequence)
    stores = [one for one in statements if isinstance(one, tirx.BufferStore)]
    others = [one for one in statements if not isinstance(one, tirx.BufferStore)]
    if len(stores) <= _ENDS or not all(isinstance(one, tirx.Bind) for one in others):
        return sequence
    first, *added, last = stores
    terms = [term for one in added for term in _added(one, first)]
    if len(terms) != len(added) or own.get(first.buffer) != (len(added) + 1, len(added) + 1):
        return sequence
    total = first.value
    for term in terms:
        total = total + term

    def whole(load: BufferLoad) -> Expr:
        return total if is_own(load, first) else load

    value = tvm_ffi.structural_map(last.value, (ir.TensorLoad, whole))
    if last.buffer.same_as(first.buffer) or tvm_ffi.structural_equal(value, last.value):
        return sequence
    inside.add(first.buffer)
    whole_store = tirx.BufferStore(last.buffer, value, last.indices)
    return tirx.SeqStmt([*others, whole_store]) if others else whole_store


_ENDS = 2  # stores: one that begins a sum, and one that reads it


def _added(store: BufferStore, first: BufferStore) -> list[Expr]:
    """What a store adds to the element that another one begins, if it is one term."""
    value = store.value
    same = store.buffer.same_as(first.buffer) and tvm_ffi.structural_equal(store.indices, first.indices)
    return [value.b] if same and isinstance(value, tirx.Add) and is_own(value.a, first) else []


@dataclass(frozen=True)
class _Sum:
    """A sum of products of lanes, which begins with a bias, and is scaled to bytes around a zero point."""

    bias: BufferLoad
    products: tuple[tuple[Factor, Factor], ...]
    scaled: Expr
    zero: int


def printed_window(printer: StatementPrinter, s: BufferStore, start: tuple[Expr, int]) -> bool:
    """Print a store of the bytes of a window's results; False for any other store."""
    windows = printer.context.vectors.lane_windows
    found = _sum(printer, s) if windows and printer.place(s.buffer).registers is None else None
    bias = None if found is None else printer.contiguous(found.bias.source, found.bias.indices)
    if found is None or bias is None:
        return False
    (data, at), (own, begin) = found.products[0]
    alike = all(x.source.same_as(data.source) and w.source.same_as(own.source) for (x, _), (w, _) in found.products)
    if not alike or printer.survey.base(own.source) not in printer.context.symmetric:
        return False
    taps = [constant_distance(printer, at[0], place[0]) for (_, place), _ in found.products]
    turns = [constant_distance(printer, begin[0], place[0]) for _, (_, place) in found.products]
    grid = _grid(taps) if turns == [RESULTS_OF_WINDOW * number for number in range(len(turns))] else None
    address = scale_address(printer, found.scaled, 0)
    if grid is None or grid.size not in windows or address is None:
        return False
    context = printer.context
    name = context.need(f"{lane_window_name(grid.size)}:i8")
    begins = (found.bias.source, bias), (data.source, at), (own.source, begin)
    sums, x, w = (read_at(printer.pointer(source, place, 0), LOAD) for source, place in begins)
    apart = [str(grid.apart)] if grid.size.columns > 1 else []
    apart += [str(grid.rows_apart)] if grid.size.rows > 1 else []
    y = printer.pointer(s.buffer, start, 0)
    numbers = map(Code, apart)
    context.emit(call(name, sums, x, *numbers, w, address, str(found.zero), y))
    return True


def _sum(printer: StatementPrinter, s: BufferStore) -> _Sum | None:
    of, lanes = element_and_lanes(s.value.ty)
    wanted = isinstance(s.value, tirx.Cast) and of.short == "i8" and lanes == RESULTS_OF_WINDOW
    narrowed = narrowing(s.value) if wanted else None
    scale = None if narrowed is None else table_load(narrowed.value)
    if narrowed is None or scale is None or printer.place(scale.source).scales != "byte table":
        return None
    bias, *terms = joined_by(tirx.Add, narrowed.value.args[0])
    products = [one for term in terms if (one := factors_of_lanes(printer, term)) is not None]
    whole = isinstance(bias, ir.TensorLoad) and len(products) == len(terms) > 0
    if not whole or any(element_and_lanes(one.ty)[0].short != "i8" for pair in products for one, _ in pair):
        return None
    return _Sum(bias, tuple(products), narrowed.value, narrowed.zero)


@dataclass(frozen=True)
class _Grid:
    size: Window
    apart: int
    rows_apart: int


def _grid(taps: Sequence[int | None]) -> _Grid | None:
    """Taps as rows and columns, in bytes from the first one; None where they lie otherwise."""
    known = [tap for tap in taps if tap is not None]
    apart = known[1] - known[0] if len(known) == len(taps) > 1 else 0
    columns = next((n for n, tap in enumerate(known) if tap != n * apart), len(known))
    rows, rest = divmod(len(known), columns) if columns else (0, 1)
    rows_apart = known[columns] if rows > 1 else 0
    wanted = [row * rows_apart + column * apart for row in range(rows) for column in range(columns)]
    if rest or wanted != known or not all(0 <= one <= _MOST_APART for one in (apart, rows_apart)):
        return None
    near = apart * (columns // 2) <= _REACH
    return _Grid(Window(rows, columns, near), apart, rows_apart)


def lane_window_name(size: Window) -> str:
    """The function for a window."""
    return f"{STEM}_{size.rows}x{size.columns}" if size.near else f"{STEM}_far_{size.rows}x{size.columns}"
