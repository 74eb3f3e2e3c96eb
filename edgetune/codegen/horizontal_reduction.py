"""Horizontal reduction by halves: the lanes of a sum, maximum or minimum join in log2(lanes) vector operations.

A chain over the lanes would need one operation per lane. Pairwise sums also have a smaller error bound than sums in
order (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002, section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tvm_ffi
from tvm import ir, sym, tirx

from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.memory import pieces
from edgetune.codegen.traverse import map_loops, variables_in
from edgetune.codegen.unrolling import extent_of, with_kind
from edgetune.graph.tvm_types import BufferLoad, Expr, Stmt, TvmBuffer, Var

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter

_FEWEST = 4  # lanes; with fewer, halving gains nothing
_WORDS: dict[type, str] = {tirx.Add: "sum", tirx.Max: "largest", tirx.Min: "smallest"}
_MARK = "lanes_"


def join_lanes(node: Stmt) -> Stmt:
    """`node` with each loop `for lane: t = t + v[first + lane]` over a whole vector of local floats as one statement.

    The statement stores the result of a call, `t = lanes_sum(t, v)`, which `printed_join` prints.
    """
    return map_loops(node, lambda loop: _joined(with_kind(loop, int(loop.kind), join_lanes(loop.body))))


def _joined(loop: tirx.For) -> Stmt:
    store, lanes = loop.body, extent_of(loop) or 0
    if not isinstance(store, tirx.BufferStore) or type(store.value) not in _WORDS or lanes & (lanes - 1):
        return loop
    old, new = store.value.a, store.value.b
    if lanes < _FEWEST or not _is(old, store.buffer, store.indices) or str(store.buffer.dtype) != "float32":
        return loop
    if not isinstance(new, ir.TensorLoad) or new.source.scope() != "local" or len(new.indices) != 1:
        return loop
    first = _first_lane(new.indices[0], loop.loop_var, lanes)
    if first is None or str(new.source.ty.dtype) != "float32":
        return loop
    used: set[Var] = set()
    variables_in(list(store.indices), used)
    begins = isinstance(loop.min, tirx.IntImm) and int(loop.min.value) == 0
    if loop.loop_var in used or not begins:  # each lane has its own element, or not all lanes are read
        return loop
    vector = new.source.vload([first], f"float32x{lanes}")
    call = tirx.call_pure_extern("float32", _MARK + _WORDS[type(store.value)], old, vector)
    return tirx.BufferStore(store.buffer, call, store.indices)


def _first_lane(index: Expr, lane: Var, lanes: int) -> Expr | None:
    """The index of lane 0 where `index` runs over one whole vector of a buffer of vectors; None elsewhere."""
    analyzer = sym.Analyzer()
    analyzer.bind(lane, ir.Range.from_min_extent(0, lanes))
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


def printed_join(printer: StatementPrinter, value: Expr) -> str | None:
    """C of a call that `join_lanes` made; None for any other value."""
    if not isinstance(value, ir.Call) or not value.args or not isinstance(value.args[0], ir.StringImm):
        return None
    word = str(value.args[0].value).removeprefix(_MARK)
    if word == value.args[0].value:
        return None
    need, code = printer.context.need, printer.scalar(value.args[1]).code
    of, lanes = element_and_lanes(value.args[2].ty)
    for first, width in pieces(lanes, printer.context.lanes_limit):
        part = printer.vector(value.args[2], first, width)
        if width > 1:
            name = printer.named(part, printer.type(of, width))
            text = f"{need(f'lanes_{word}:{of.value_short}x{width}')}(&{name})"
        else:
            text = part.code
        code = f"{code} + {text}" if word == "sum" else f"{need(f'{_scalar(word)}:{of.value_short}')}({code}, {text})"
    return code


def _scalar(word: str) -> str:
    return "max" if word == "largest" else "min"


def needed(word: str, rest: str) -> list[str]:
    """Snippets that `lanes_function` needs."""
    types = [f"type:{rest}", f"type:i{rest[1:]}"]
    return types if word == "sum" else [*types, f"v{_scalar(word)}:{rest}"]


def lanes_function(word: str, rest: str) -> str:
    """`float @lanes_sum_f32x16(const f32x16 *)`: the sum (maximum, minimum) of all lanes, by halves."""
    lanes = int(rest.partition("x")[2])
    step = "a += b;" if word == "sum" else f"@v{_scalar(word)}_{rest}(&a, &b);"
    text = f"static inline __attribute__((always_inline)) float @lanes_{word}_{rest}(const {rest} *v)\n{{\n"
    text += f"    {rest} a = *v, b;\n"
    half = lanes // 2
    while half:
        order = [lane ^ half for lane in range(lanes)]
        text += f"    b = ET_SHUFFLE_{rest}(a, {', '.join(map(str, order))});\n    {step}\n"
        half //= 2
    return f"{_shuffle(rest)}{text}    return a[0];\n}}\n"


def _shuffle(rest: str) -> str:
    ints = f"i{rest[1:]}"
    return (
        f"#ifndef ET_SHUFFLE_{rest}\n#if __has_builtin(__builtin_shufflevector)\n"
        f"#define ET_SHUFFLE_{rest}(a, ...) __builtin_shufflevector((a), (a), __VA_ARGS__)\n"
        f"#else\n#define ET_SHUFFLE_{rest}(a, ...) __builtin_shuffle((a), ({ints}){{__VA_ARGS__}})\n#endif\n#endif\n"
    )
