"""Cache blocking of long reductions: computes one part of the reduction for all output tiles, then the next part.

A register tile that runs over a whole long reduction reads more operands than L2 holds, before the next tile can reuse
them. Between parts, unfinished sums are stored where the results will be (K. Goto, R. van de Geijn, Anatomy of
High-Performance Matrix Multiplication, ACM TOMS 34(3), 2008, which keeps them in the output too).
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx

from edgetune.affine.expressions import loads_in, operands
from edgetune.codegen.traverse import map_loops
from edgetune.codegen.unrolling import extent_of, with_kind
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, For, Stmt

ANNOTATION = "edgetune_reduction_blocks"
"""On the outermost loop of a reduction: the number of equal parts to divide it into, or somewhat more."""


def block_reductions(body: Stmt) -> Stmt:
    """`body` with the nest around an annotated loop divided; a nest that cannot be divided is computed as a whole.

    A nest can be divided if it has loops around: statements that set accumulators, the annotated loop, and loops around
    one store that reads, for each element written, one accumulator of its type; no other tile may write that element. A
    divisor near the wanted number of parts must exist.
    """
    return map_loops(body, _blocked)


def _blocked(outermost: For) -> Stmt:
    loops, inner = _nest(outermost)
    places = [number for number, statement in enumerate(inner) if _parts(statement) > 1]
    if not places:
        return outermost
    return _divided(loops, inner[: places[0]], inner[places[0]], inner[places[0] + 1 :]) or outermost


def near_divisor(extent: int, wanted: int) -> int:
    """The smallest divisor of `extent` from `wanted` to twice that; 1 if there is none, or if it is `extent` itself."""
    return next((number for number in range(wanted, min(2 * wanted + 1, extent)) if extent % number == 0), 1)


def _nest(node: Stmt) -> tuple[list[For], list[Stmt]]:
    """Perfectly nested loops, outermost first, and the statements inside."""
    loops = []
    while isinstance(node, tirx.For) and _parts(node) == 1:
        loops.append(node)
        node = node.body
    return loops, list(node.seq) if isinstance(node, tirx.SeqStmt) else [node]


def _parts(node: Stmt) -> int:
    return int(node.annotations.get(ANNOTATION, 1)) if isinstance(node, tirx.For) else 1


def _divided(loops: list[For], first: list[Stmt], reduction: For, last: list[Stmt]) -> Stmt:
    """The divided nest; None if it cannot be divided."""
    extent = extent_of(reduction) or 1
    parts = near_divisor(extent, _parts(reduction))
    store = _only_store(last[0]) if len(last) == 1 else None
    load = None if store is None else _only_accumulator(store, first)
    if not loops or store is None or load is None or parts == 1 or _overlaps(store.indices[0]):
        return None
    zero = tirx.IntImm(str(reduction.loop_var.ty.dtype), 0)
    part = tirx.Var("part", reduction.loop_var.ty)
    size = zero + extent // parts
    shorter = tirx.For(reduction.loop_var, part * size, size, int(reduction.kind), reduction.body)
    unfinished = store.buffer.vload(list(store.indices)[:1], str(store.value.ty.dtype))
    again = _with_store(last[0], tirx.BufferStore(load.source, unfinished, load.indices))
    aside = _with_store(last[0], tirx.BufferStore(store.buffer, load, store.indices))
    begin = tirx.IfThenElse(part.equal(0), first[0] if len(first) == 1 else tirx.SeqStmt(first), again)
    end = tirx.IfThenElse(part.equal(parts - 1), last[0], aside)
    nest: Stmt = tirx.SeqStmt([begin, shorter, end])
    for loop in reversed(loops):
        nest = with_kind(loop, int(loop.kind), nest)
    return tirx.For(part, zero, zero + parts, int(tirx.ForKind.SERIAL), nest)


def _overlaps(index: Expr) -> bool:
    """Whether a minimum in an index may let two tiles write one element: its sum would be added twice."""
    return isinstance(index, (tirx.Min, tirx.Max)) or any(_overlaps(operand) for operand in operands(index))


def _only_store(node: Stmt) -> BufferStore:
    while isinstance(node, tirx.For):
        node = node.body
    return node if isinstance(node, tirx.BufferStore) and len(node.indices) == 1 else None


def _only_accumulator(store: BufferStore, first: list[Stmt]) -> BufferLoad:
    """The one element that `store` reads of the accumulators set in `first`, if it has the stored type."""
    set_here = [_only_store(statement) for statement in first]
    if len(set_here) != 1 or set_here[0] is None:
        return None
    accumulators = set_here[0].buffer
    found = [load for load in loads_in([store.value]) if load.source.same_as(accumulators)]
    same = found and all(tvm_ffi.structural_equal(load.indices, found[0].indices) for load in found)
    return found[0] if same and str(found[0].ty.dtype) == str(store.value.ty.dtype) else None


def _with_store(node: Stmt, store: BufferStore) -> Stmt:
    """The loops around one store, with another store inside."""
    if not isinstance(node, tirx.For):
        return store
    return with_kind(node, int(node.kind), _with_store(node.body, store))
