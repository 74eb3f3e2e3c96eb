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
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, Stmt, TvmBuffer

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter


class _Product(NamedTuple):
    """A number that all lanes share times one of each lane: the loads, and their first indices."""

    shared: BufferLoad
    at: Expr
    lanes: BufferLoad
    begin: Expr
    stride: int


def with_joined_products(body: Stmt) -> Stmt:
    """`body` in which products that are added to the same lanes one after another are one sum, as many as lie in turn.

    They lie in turn where the numbers of a lane lie as far from those of the next lane as there are products.
    """
    return tvm_ffi.structural_map(body, (tirx.SeqStmt, _joined), order="post")


def _joined(sequence: Stmt) -> Stmt:
    left, made = list(sequence.seq), []
    while left:
        count = _stride(left[0])
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


def _operands(store: BufferStore, term: Expr) -> list[BufferLoad]:
    """The loads of a product of integers that a store of 32 bits adds; empty for any other term."""
    if not isinstance(term, tirx.Mul) or element_and_lanes(store.value.ty)[0].short != "i32":
        return []
    return [load for load in map(widened_load, (term.a, term.b)) if load is not None]


def _turns(load: BufferLoad) -> int:
    """How far the number of a lane lies from that of the next one, where they are not neighbours; else 0."""
    step = lane_step(load.indices[-1]) if load.indices else None
    return step if step is not None and step > 1 else 0


def shared_operands(body: Stmt) -> set[TvmBuffer]:
    """The tensors of which all lanes take an integer, to multiply it by one of several that each lane has in turn.

    An instruction reads several of them at once, so that they lie in memory, not in registers.
    """
    found: set[TvmBuffer] = set()

    def look(store: BufferStore) -> None:
        for term in joined_by(tirx.Add, store.value):
            loads = _operands(store, term)
            if any(map(_turns, loads)):
                found.update(load.source for load in loads if not _turns(load))

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
    ordered = _side_by_side(printer, [one for one in products if one is not None])
    if not ordered:
        return False
    kinds = [element_and_lanes(one.ty)[0].short for one in (ordered[0].shared, ordered[0].lanes)]
    name = f"dot_{kinds[0]}_{kinds[1]}_{len(ordered)}"
    if width not in printer.context.vectors.dot.get(name, {}):
        return False
    x, w = ordered[0].shared.source, ordered[0].lanes.source
    function = printer.context.need(f"{name}:i32x{width}")
    numbers = read_at(printer.pointer(x, (ordered[0].at, 1), 0), LOAD)
    of_lanes = read_at(printer.pointer(w, (ordered[0].begin, 1), len(ordered) * first), VECTOR_LOAD)
    printer.context.emit(joinable(function, JoinableCall(name, f"i32x{width}", (register,), (), (numbers, of_lanes))))
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
        at, ramp = (printer.flat_index(one.source, one.indices) for one in (x, w))
        if isinstance(ramp, tirx.Ramp) and isinstance(ramp.stride, tirx.IntImm) and not isinstance(at, tirx.Ramp):
            return _Product(x, at, w, ramp.base, int(ramp.stride.value))
    return None


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


def _side_by_side(printer: StatementPrinter, products: list[_Product]) -> list[_Product]:
    """The products in the order of their numbers, which lie one after another in both tensors; empty if they do not."""
    first, count = products[0], len(products)
    found: dict[int, _Product] = {}
    for one in products:
        same = one.shared.source.same_as(first.shared.source) and one.lanes.source.same_as(first.lanes.source)
        if not same or one.stride != count:
            return []
        steps = {constant_distance(printer, *pair) for pair in ((first.at, one.at), (first.begin, one.begin))}
        step = steps.pop()
        if steps or step is None:
            return []
        found[step] = one
    order = range(min(found), min(found) + count)
    return [found[place] for place in order] if sorted(found) == [*order] else []


def constant_distance(printer: StatementPrinter, start: Expr, index: Expr) -> int | None:
    """The constant number of elements between two indices; None where it is not constant."""
    distance = printer.context.analyzer.simplify(index - start)
    return int(distance.value) if isinstance(distance, tirx.IntImm) else None


def lane_step(index: Expr) -> int | None:
    """The constant distance of the elements of neighbouring lanes."""
    step = index.stride if isinstance(index, tirx.Ramp) else None
    return int(step.value) if isinstance(step, tirx.IntImm) else None
