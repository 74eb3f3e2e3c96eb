"""Dot products: sums of products of neighbouring narrow integers, which an instruction adds to lanes of 32 bits.

`sums[o] += x[0] * w[4 * o] + x[1] * w[4 * o + 1] + x[2] * w[4 * o + 2] + x[3] * w[4 * o + 3]`, with bytes, is one
instruction for all lanes o: VPDPBUSD of x86, SDOT, UDOT and USDOT of ARM, and PMADDWD for two numbers of 16 bits. The
program says no more than this sum, so its meaning is the same without them. A loop over the four products is unrolled,
and its additions become this one sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import joined_by
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.lines import JoinableCall, Line, LineKind, call, joinable
from edgetune.codegen.text import Address, Code, Lvalue, code
from edgetune.codegen.work import LOAD, VECTOR_LOAD
from edgetune.target.dot_product import at_words, order_of_factors
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, PrimFunc, Stmt, TvmBuffer

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter


RESULTS_AT_A_TIME = "edgetune.results_at_a_time"
"""Attribute of a function: the results of one step, in one or several registers."""

DOT_PRODUCTS = "edgetune.dot_products"
"""Attribute of a function: how many products of its last reduction axis one instruction adds to a lane."""


class _Product(NamedTuple):
    """A number that all lanes share times one of each lane: the loads, and their first indices.

    `stride` is how far the number of a lane lies from that of the next one; 0 for one lane.
    """

    shared: BufferLoad
    at: Expr
    lanes: BufferLoad
    begin: Expr
    stride: int


_FACTORS = 2


def with_joined_products(body: Stmt, products: int) -> Stmt:
    """`body` in which products that are added to the same lanes one after another are one sum, as many as lie in turn.

    They lie in turn where the numbers of a lane lie as far from those of the next lane as there are products. To a sum
    that is one number, so many `products` are added by one instruction.
    """
    return tvm_ffi.structural_map(body, (tirx.SeqStmt, lambda sequence: _joined(sequence, products)), order="post")


def _joined(sequence: Stmt, products: int) -> Stmt:
    left, made = list(sequence.seq), []
    while left:
        count = _stride(left[0]) or (products if _adds_product_of_numbers(left[0]) else 0)
        run = left[:count]
        if count > 1 and len(run) == count and all(_adds_to(run[0], one) for one in run):
            first = run[0]
            total = first.value.b
            for one in run[1:]:
                total = total + one.value.b
            made.append(tirx.BufferStore(first.buffer, first.value.a + total, first.indices))
        else:
            run = left[:1]
            made += run
        left = left[len(run) :]
    if len(made) == len(sequence.seq):
        return sequence
    return made[0] if len(made) == 1 else tirx.SeqStmt(made)


def _adds_to(first: BufferStore, other: Stmt) -> bool:
    """Whether a store adds a product to the element that `first` adds one to."""
    if not isinstance(other, tirx.BufferStore) or not other.buffer.same_as(first.buffer):
        return False
    value = other.value
    return isinstance(value, tirx.Add) and is_own(value.a, first) and isinstance(value.b, tirx.Mul)


def _stride(statement: Stmt) -> int:
    """How far the numbers of a lane lie from those of the next lane, if a store adds a product of integers; else 0."""
    if not isinstance(statement, tirx.BufferStore) or not _adds_to(statement, statement):
        return 0
    return max(map(_turns, _operands(statement, statement.value.b)), default=0)


def _adds_product_of_numbers(statement: Stmt) -> bool:
    """Whether a store adds the product of two integers, no vectors, to a number."""
    if not isinstance(statement, tirx.BufferStore) or not _adds_to(statement, statement):
        return False
    return element_and_lanes(statement.value.ty)[1] == 1 and len(_operands(statement, statement.value.b)) == _FACTORS


def _operands(store: BufferStore, term: Expr) -> list[BufferLoad]:
    """The loads of a product of integers that a store of 32 bits adds; empty for any other term."""
    if not isinstance(term, tirx.Mul) or element_and_lanes(store.value.ty)[0].short != "i32":
        return []
    return [load for load in map(widened_load, (term.a, term.b)) if load is not None]


def _turns(load: BufferLoad) -> int:
    """How far the number of a lane lies from that of the next one, where they are not neighbours; else 0."""
    step = lane_step(load.indices[-1]) if load.indices else None
    return step if step is not None and step > 1 else 0


def products_of(function: PrimFunc) -> int:
    """How many products one instruction adds to a lane in a function; 1 where there is no such instruction."""
    return int((function.attrs or {}).get(DOT_PRODUCTS, 1))


def reads_several(function: PrimFunc) -> bool:
    """Whether an instruction reads several integers of both factors at once in a function."""
    attributes = function.attrs or {}
    return DOT_PRODUCTS in attributes or RESULTS_AT_A_TIME in attributes


def shared_operands(body: Stmt, *, several: bool) -> set[TvmBuffer]:
    """The tensors of which all lanes take an integer, to multiply it by one of several that each lane has in turn.

    An instruction reads several of them at once, so that they lie in memory, not in registers. With `several`, it does
    so of both factors of any product (see `reads_several`).
    """
    found: set[TvmBuffer] = set()

    def look(store: BufferStore) -> None:
        for term in joined_by(tirx.Add, store.value):
            loads = _operands(store, term)
            if any(map(_turns, loads)):
                found.update(load.source for load in loads if not _turns(load))
            elif several and len(loads) == _FACTORS:
                found.update(load.source for load in loads)

    tvm_ffi.structural_walk(body, (tirx.BufferStore, look))
    return found


def added_dot_products(
    printer: StatementPrinter, s: BufferStore, start: tuple[Expr, int], first: int, width: int
) -> bool:
    """Print the lanes from `first` on of `acc = acc + products`, with acc in a register; False for any other store."""
    if not isinstance(s.value, tirx.Add) or element_and_lanes(s.value.ty)[0].short != "i32":
        return False
    register = printer.register(printer.place(s.buffer), start, first, width)
    terms = [*joined_by(tirx.Add, s.value)]
    own = [term for term in terms if is_own(term, s)]
    products = [_product(printer, term) for term in terms if not is_own(term, s)]
    if register is None or len(own) != 1 or None in products:
        return False
    found = [one for one in products if one is not None]
    kinds = [element_and_lanes(one.ty)[0].short for one in (found[0].shared, found[0].lanes)] if found else []
    name = "_".join(("dot", *kinds, str(len(found))))
    if width not in printer.context.vectors.dot.get(name, {}):
        return False
    begins = _side_by_side(printer, found, order_of_factors(found[0].shared.source.ty.dtype, len(found)))
    if begins is None:
        return False
    x, w = found[0].shared.source, found[0].lanes.source
    aligned = at_words(name)
    if width in printer.context.vectors.dot.get(aligned, {}) and _at_words(printer, (x, w), begins):
        name = aligned
    kind = f"i32x{width}" if width > 1 else "i32"
    function = printer.context.need(f"{name}:{kind}")
    numbers, of_lanes = (
        printer.pointer(x, (begins[0], 1), 0),
        printer.pointer(w, (begins[1], 1), len(found) * first),
    )
    sources = (read_at(numbers, LOAD), read_at(of_lanes, VECTOR_LOAD))
    made = JoinableCall(name, kind, (register,), (), sources, (numbers.place, of_lanes.place))
    printer.context.emit(joinable(function, made))
    return True


def twice(lines: Sequence[Line], need: Callable[[str], str], lanes: Collection[int]) -> list[Line]:
    """Lines in which two sums of a pair of products of bytes that are added to the same register are one call.

    Of bytes from -127 to 127 by any others, the sum of two products fits 16 bits: the two pairs are added first, in
    vectors of these `lanes`. A call moves to the next one with its register, if nothing between writes what it reads.
    """
    found: list[Line] = []
    waiting: dict[str, int] = {}
    for line in lines:
        made = line.call if _is_pair(line, lanes) else None
        if line.kind is not LineKind.STATEMENT or line.in_memory:
            waiting.clear()
        if made is None:
            for register in line.mentions & waiting.keys():
                del waiting[register]
            found.append(line)
            continue
        register = made.variables[0]
        first = waiting.pop(register, None)
        if first is None:
            waiting[register] = len(found)
            found.append(line)
            continue
        before = found[first].call
        assert before is not None, "only calls wait"  # noqa: S101
        name = need(f"{TWICE}:{made.kind}")
        joint = call(name, Lvalue.of(register).address, *before.sources, *made.sources)
        found.append(replace(joint, depth=line.depth))
        found[first] = _NOTHING
    return [line for line in found if line is not _NOTHING]


def _is_pair(line: Line, lanes: Collection[int]) -> bool:
    made = line.call
    return made is not None and made.function == PAIR and int(made.kind.partition("x")[2]) in lanes


PAIR, TWICE = "dot_i8_i8_2", "dot_twice_i8_i8_2"
_NOTHING = Line(Code(""))


def read_at(pointer: Address, kind: str) -> Code:
    """An address that a function only reads from, by one load."""
    return code("{}", pointer).computed(kind, code("*{}", pointer), offset=pointer.place.offset)


def is_own(term: Expr, s: BufferStore) -> bool:
    """Whether a term is the element that is stored."""
    same = isinstance(term, ir.TensorLoad) and term.source.same_as(s.buffer)
    return same and bool(tvm_ffi.structural_equal(term.indices, s.indices))


def _product(printer: StatementPrinter, term: Expr) -> _Product | None:
    if not isinstance(term, tirx.Mul):
        return None
    for shared, lanes in ((term.a, term.b), (term.b, term.a)):
        x, w = widened_load(shared), widened_load(lanes)
        if x is None or w is None or not all(_lies_in_memory(printer, one) for one in (x, w)):
            continue
        at, own = (printer.flat_index(one.source, one.indices) for one in (x, w))
        if isinstance(at, tirx.Ramp):
            continue
        if isinstance(own, tirx.Ramp) and isinstance(own.stride, tirx.IntImm):
            return _Product(x, at, w, own.base, int(own.stride.value))
        if element_and_lanes(term.ty)[1] == 1:
            return _Product(x, at, w, own, 0)
    return None


_WORD = 4  # bytes


def _at_words(printer: StatementPrinter, buffers: Sequence[TvmBuffer], indices: Sequence[Expr]) -> bool:
    """Whether elements lie at multiples of 4 bytes, as buffers of the kernel and packed weights themselves do.

    A parameter need not: it may be a part of a tensor, or a caller's.
    """
    for buffer, index in zip(buffers, indices, strict=True):
        place, size = printer.context.analyzer.modular_set(index), element_and_lanes(buffer.ty.dtype)[0].bytes
        base = printer.survey.base(buffer)
        if size < _WORD and base not in printer.context.packed and base not in printer.survey.allocated:
            return False
        if any(int(part) * size % _WORD for part in (place.coeff, place.base)):
            return False
    return True


def _lies_in_memory(printer: StatementPrinter, load: BufferLoad) -> bool:
    """Whether a tensor has an address, and its elements are numbers."""
    place = printer.place(load.source)
    return place.registers is None and place.lanes == 1


def widened_load(value: Expr) -> BufferLoad | None:
    """The load that is widened once, and given to all lanes if it is a scalar; a second cast might change its sign."""
    value = value.value if isinstance(value, tirx.Broadcast) else value
    value = value.value if isinstance(value, tirx.Cast) else value
    value = value.value if isinstance(value, tirx.Broadcast) else value
    return value if isinstance(value, ir.TensorLoad) else None


def _side_by_side(
    printer: StatementPrinter, products: list[_Product], order: tuple[int, ...]
) -> tuple[Expr, Expr] | None:
    """The places of the first number and of the first factor of the lanes; None where they are not one after another.

    The factors of a lane lie in turn, and meet the numbers in `order`.
    """
    first, count = products[0], len(products)
    found: dict[int, tuple[int, _Product]] = {}
    for one in products:
        same = one.shared.source.same_as(first.shared.source) and one.lanes.source.same_as(first.lanes.source)
        at, begin = (constant_distance(printer, *pair) for pair in ((first.at, one.at), (first.begin, one.begin)))
        if not same or one.stride not in (0, count) or at is None or begin is None:
            return None
        found[begin] = at, one
    begin = min(found)
    start = found[begin][0]
    if {place - begin: at - start for place, (at, _) in found.items()} != dict(enumerate(order)):
        return None
    return found[begin][1].at, found[begin][1].begin


def constant_distance(printer: StatementPrinter, start: Expr, index: Expr) -> int | None:
    """The constant number of elements between two indices; None where it is not constant."""
    distance = printer.context.analyzer.simplify(index - start)
    return int(distance.value) if isinstance(distance, tirx.IntImm) else None


def lane_step(index: Expr) -> int | None:
    """The constant distance of the elements of neighbouring lanes."""
    step = index.stride if isinstance(index, tirx.Ramp) else None
    return int(step.value) if isinstance(step, tirx.IntImm) else None
