"""Horizontal reduction by halves: the lanes of a sum, maximum or minimum join in log2(lanes) vector operations.

A chain over the lanes would need one operation per lane. Pairwise sums also have a smaller error bound than sums in
order (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002, section 4.2).

Up to four vectors in a row join at once: the lanes of two become those of one, until one vector has the four results.
That takes 9 shuffles and additions for four vectors of four lanes, 11 of eight, 13 of sixteen; one after another, 16,
24 and 32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise, takewhile
from math import inf
from typing import TYPE_CHECKING

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.domain import Domain, are_equal
from edgetune.affine.expressions import variables_in
from edgetune.codegen.dtypes import element, element_and_lanes
from edgetune.codegen.horizontal_snippets import FOUR, scalar_extreme
from edgetune.codegen.lines import assignment, call, declaration
from edgetune.codegen.memory import pieces
from edgetune.codegen.scalars import wrapped
from edgetune.codegen.text import Code, Lvalue, Text, called, code, vector_literal
from edgetune.codegen.traverse import flattened, map_loops
from edgetune.codegen.unrolling import extent_of, with_kind
from edgetune.tvm_types import BufferLoad, Expr, Stmt, TvmBuffer, Var

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter

_MOST = 2 * FOUR  # results that are neighbours; others join by four
_FEWEST = 4  # lanes; with fewer, halving gains nothing
_WORDS: dict[type, str] = {tirx.Add: "sum", tirx.Max: "largest", tirx.Min: "smallest"}
_CONSTANTS = (tirx.FloatImm, tirx.IntImm)
_MARK = "lanes_"


@dataclass(frozen=True)
class _Result:
    """What the lanes of a vector join to; one of the lanes of a `vector` that holds several results, or of None."""

    text: Text
    vector: Code | None = None


def joins_lanes(dtype: str) -> bool:
    """Whether lanes of a type are joined by halves: those of numbers which have one type in memory and in registers."""
    of = element(dtype)
    return of.kind != "bool" and not of.half


def join_lanes(node: Stmt) -> Stmt:
    """`node` with each loop `for lane: t = t + v[first + lane]` over a whole vector of local numbers as one statement.

    The statement stores the result of a call, `t = lanes_sum(t, v)`, which `printed_join` prints; or, where t = 0 comes
    before the loop, of `lanes_sum(0, v)`.
    """
    joined = map_loops(node, lambda loop: _joined(with_kind(loop, int(loop.kind), join_lanes(loop.body))))
    return _started(joined) if isinstance(joined, tirx.SeqStmt) else joined


def _started(sequence: tirx.SeqStmt) -> Stmt:
    """A sequence with each `t = constant; t = lanes_sum(t, v)` as one statement."""
    found: list[Stmt] = []
    for statement in flattened(sequence):
        before = found[-1] if found else None
        if isinstance(before, tirx.BufferStore) and isinstance(before.value, _CONSTANTS) and _word(statement):
            word, old, vector = statement.value.args
            if _is(old, before.buffer, before.indices):
                call = tirx.call_pure_extern(str(old.ty.dtype), str(word.value), before.value, vector)
                found[-1] = tirx.BufferStore(statement.buffer, call, statement.indices)
                continue
        found.append(statement)
    return found[0] if len(found) == 1 else tirx.SeqStmt(found)


def _word(node: Stmt) -> str:
    """What a statement that `join_lanes` made joins: "sum", "largest" or "smallest"; empty for any other statement."""
    value = node.value if isinstance(node, tirx.BufferStore) else None
    name = value.args[0] if isinstance(value, ir.Call) and value.args else None
    word = str(name.value) if isinstance(name, ir.StringImm) else ""
    return word.removeprefix(_MARK) if word.startswith(_MARK) else ""


def _joined(loop: tirx.For) -> Stmt:
    store, lanes = loop.body, extent_of(loop) or 0
    if not isinstance(store, tirx.BufferStore) or type(store.value) not in _WORDS or lanes & (lanes - 1):
        return loop
    old, new = store.value.a, store.value.b
    (of, own), dtype = element_and_lanes(store.value.ty), str(store.buffer.dtype)
    if lanes < _FEWEST or not _is(old, store.buffer, store.indices) or own > 1 or not joins_lanes(of.dtype):
        return loop
    if not isinstance(new, ir.TensorLoad) or new.source.scope() != "local" or len(new.indices) != 1:
        return loop
    first = _first_lane(new.indices[0], loop.loop_var, lanes)
    if first is None or str(new.source.ty.dtype) != dtype:
        return loop
    used: set[Var] = set()
    variables_in(list(store.indices), used)
    begins = isinstance(loop.min, tirx.IntImm) and int(loop.min.value) == 0
    if loop.loop_var in used or not begins:  # each lane has its own element, or not all lanes are read
        return loop
    vector = new.source.vload([first], f"{dtype}x{lanes}")
    call = tirx.call_pure_extern(dtype, _MARK + _WORDS[type(store.value)], old, vector)
    return tirx.BufferStore(store.buffer, call, store.indices)


def _first_lane(index: Expr, lane: Var, lanes: int) -> Expr | None:
    """The index of lane 0 where `index` runs over one whole vector of a buffer of vectors; None elsewhere."""
    analyzer = Domain.of([(lane, lanes)]).analyzer
    first = analyzer.simplify(index - lane)
    used: set[Var] = set()
    variables_in([first], used)
    whole = lane not in used and analyzer.can_prove_equal(tirx.floormod(first, lanes), 0)
    return first if whole else None


def _is(load: BufferLoad, buffer: TvmBuffer, indices: Sequence[Expr]) -> bool:
    return (
        isinstance(load, ir.TensorLoad)
        and load.source.same_as(buffer)
        and tvm_ffi.structural_equal(load.indices, indices)
    )


def printed_join(printer: StatementPrinter, store: Stmt) -> bool:
    """Emit a statement that `join_lanes` made; False, and nothing, for any other one."""
    if not _word(store):
        return False
    _emit_result(printer, store, *_joined_alone(printer, store))
    return True


def printed_joins(printer: StatementPrinter, statements: Sequence[Stmt]) -> int:
    """Emit the joins of one kind that `statements` begins with, several at once; how many those are.

    None are emitted if there is only one. None of them may store what another one joins.
    """
    run = list(takewhile(partial(_alike, printer, statements[0]), statements))
    if len(run) < 2:
        return 0
    for row in _rows(run):
        values: list[_Result] = []
        kept = printer.place(row[0].buffer).registers is not None
        for part in _parts(row):
            found = _joined_together(printer, part) if len(part) > 1 else _joined_alone(printer, part[0])
            values += found
            if not kept:
                _emit_to_memory(printer, part, found)
        if kept:
            _emit_to_registers(printer, row, values)
    return len(run)


def _alike(printer: StatementPrinter, first: Stmt, other: Stmt) -> bool:
    """Whether `other` joins one whole vector, as `first` does, which is not where `first` stores."""
    if not _word(first) or _word(first) != _word(other):
        return False
    vectors = [store.value.args[2] for store in (first, other)]
    lanes = {_lanes(store) for store in (first, other)}
    targets = {printer.survey.base(store.buffer) for store in (first, other)}
    sources = {printer.survey.base(vector.source) for vector in vectors}
    return len(targets) == len(lanes) == 1 and max(lanes) <= printer.context.lanes_limit and not targets & sources


def _lanes(store: Stmt) -> int:
    return element_and_lanes(store.value.args[2].ty)[1]


def _rows(run: Sequence[Stmt]) -> Iterator[list[Stmt]]:
    """A run of joins as rows of neighbours; shorter ones than three are one row together."""
    rows: list[list[Stmt]] = []
    for store in run:
        if rows and _next_to(rows[-1][-1], store):
            rows[-1].append(store)
        else:
            rows.append([store])
    for _, group in groupby(enumerate(rows), lambda row: row[0] if len(row[1]) >= FOUR - 1 else -1):
        yield [store for _, row in group for store in row]


def _next_to(one: Stmt, other: Stmt) -> bool:
    same = one.buffer.same_as(other.buffer) and len(one.indices) == 1
    return same and are_equal(other.indices[0] - one.indices[0], 1)


def _parts(row: Sequence[Stmt]) -> Iterator[Sequence[Stmt]]:
    """What is joined at once: eight where they are neighbours, four, and fewer at the end."""
    left = list(row)
    neighbours = all(_next_to(one, other) for one, other in pairwise(left))
    while left:
        size = _MOST if neighbours and len(left) >= _MOST and _lanes(left[0]) >= _MOST else FOUR
        yield left[:size]
        left = left[size:]


def _joined_alone(printer: StatementPrinter, store: Stmt) -> list[_Result]:
    """The lanes of a vector joined: a call for each native vector."""
    word, need, values = _word(store), printer.context.need, list[_Result]()
    of, lanes = element_and_lanes(store.value.args[2].ty)
    for first, width in pieces(lanes, printer.context.lanes_limit):
        part = printer.vector(store.value.args[2], first, width)
        if width > 1:
            name = printer.named(part, printer.type(of, width))
            function = need(f"lanes_{word}:{of.value_short}x{width}")
            values.append(_Result(called(function, Lvalue.of(name).address)))
        else:
            values.append(_Result(part))
    return values


def _joined_together(printer: StatementPrinter, stores: Sequence[Stmt]) -> list[_Result]:
    """The results of two joins or more, which one call has. Two or three vectors are joined as four."""
    word, need = _word(stores[0]), printer.context.need
    of, lanes = element_and_lanes(stores[0].value.args[2].ty)
    vectors = [printer.vector(store.value.args[2], 0, lanes) for store in stores]
    names = [printer.named(vector, printer.type(of, lanes)) for vector in vectors]
    names += names[len(names) - FOUR :] if len(names) < FOUR else []
    result = printer.context.local("sums" if word == "sum" else word)
    function = need(f"lanes_{word}_each:{of.value_short}x{lanes}x{len(names)}")
    printer.context.emit(declaration(printer.type(of, len(names)), result))
    printer.context.emit(call(function, *(Lvalue.of(name).address for name in (result, *names))))
    return [_Result(Text(Lvalue.element(result, lane).value), result) for lane in range(len(stores))]


def _emit_to_memory(printer: StatementPrinter, stores: Sequence[Stmt], values: Sequence[_Result]) -> None:
    """Store results one by one, or at once where they are all lanes of a vector side by side."""
    whole = len(stores) >= FOUR and all(map(_is_start, stores))
    vector = values[0].vector
    if vector is None or not whole or not all(_next_to(one, other) for one, other in pairwise(stores)):
        for store, value in zip(stores, values, strict=True):
            _emit_result(printer, store, value)
        return
    of, _ = element_and_lanes(stores[0].value.ty)
    loose = printer.context.need(f"type:{of.value_short}x{len(stores)}u")
    where = printer.element_text(stores[0].buffer, stores[0].indices)
    target = Lvalue.in_variable(where.variable, code("*({} *){}", loose, where.address))
    printer.context.emit(assignment(target, Text(vector)))


def _emit_to_registers(printer: StatementPrinter, stores: Sequence[Stmt], values: Sequence[_Result]) -> None:
    """Store results in registers, those of a vector at once: compilers insert lanes one after another."""
    of, _ = element_and_lanes(stores[0].value.ty)
    registers = printer.place(stores[0].buffer).registers or {}
    places = [int(store.indices[0].value) for store in stores]
    number = 0
    while number < len(stores):
        name, width = registers.get(places[number], (None, 1))
        end = number + width
        whole = places[number:end] == list(range(places[number], places[number] + width))
        if name is not None and width > 1 and whole and all(map(_is_start, stores[number:end])):
            vector = _vector_of(values[number:end], values, printer.type(of, width))
            printer.context.emit(assignment(Lvalue.of(name), vector))
            number = end
        else:
            _emit_result(printer, stores[number], values[number])
            number += 1


def _vector_of(some: Sequence[_Result], values: Sequence[_Result], c_type: str) -> Text:
    """A vector of some of the `values`: the vector whose lanes they all are, or a literal."""
    vector = some[0].vector
    lanes = [value for value in values if value.vector == vector]
    if vector is not None and len(some) >= FOUR and list(some) == lanes:
        return Text(vector)
    return vector_literal(c_type, [one.text for one in some])


def _emit_result(printer: StatementPrinter, store: Stmt, *values: _Result) -> None:
    """Store what the call of `store` starts from, joined with `values`."""
    word, of = _word(store), element_and_lanes(store.value.ty)[0]
    texts = [one.text for one in values]
    result, *rest = texts if _is_start(store) else [printer.scalar(store.value.args[1]), *texts]
    for text in rest:
        if word == "sum":
            result = wrapped(result, "+", text, of)
        else:
            result = called(printer.context.need(f"{scalar_extreme(word)}:{of.value_short}"), result, text)
    printer.context.emit(assignment(printer.element_text(store.buffer, store.indices), result))


def _is_start(store: Stmt) -> bool:
    """Whether a join starts from a constant that changes no result."""
    start, word = store.value.args[1], _word(store)
    if isinstance(start, tirx.FloatImm):
        return float(start.value) == {"sum": 0.0, "largest": -inf, "smallest": inf}[word]
    if not isinstance(start, tirx.IntImm):
        return False
    of = element_and_lanes(start.ty)[0]
    signed = of.kind == "int"
    least, most = -(1 << of.bits - 1) if signed else 0, (1 << of.bits - signed) - 1
    return int(start.value) == {"sum": 0, "largest": least, "smallest": most}[word]
