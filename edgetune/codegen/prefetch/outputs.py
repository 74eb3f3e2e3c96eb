"""Software prefetching of outputs: loads the output (and residual) cache lines of a tile before its reduction starts.

An output larger than the cache comes from memory line by line, because a line must be loaded before a part of it can be
written. After a short sum, stores then wait for each other; they do not wait for lines prefetched before the sum. A
needless prefetch costs time, but never changes a result.
"""

from __future__ import annotations

from math import prod

from tvm import tirx

from edgetune.affine.linear import linear
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.prefetch.intrinsics import FIRST_CACHE, LINE, certain_loads, prefetch_line
from edgetune.codegen.traverse import children
from edgetune.codegen.unrolling import extent_of, with_kind
from edgetune.tvm_types import Expr, For, Stmt, TvmBuffer

ANNOTATION = "edgetune_epilogue_lines"
"""On the longest loop of a reduction: lines that the stores after it write or read are prefetched before it."""

_MOST_PER_LINE = 4  # most vectors of a line that may each prefetch it


def prefetch_outputs(node: Stmt) -> Stmt:
    """`node` with prefetches before annotated reductions; unchanged if no plain store follows."""
    if isinstance(node, tirx.For):
        # A loop of extent 1 survives only to carry the annotation; unroll it now.
        only = ANNOTATION in node.annotations and extent_of(node) == 1
        kind = int(tirx.ForKind.UNROLLED if only else node.kind)
        return with_kind(node, kind, prefetch_outputs(node.body))
    if isinstance(node, tirx.AttrStmt):
        return tirx.AttrStmt(node.node, node.attr_key, node.value, prefetch_outputs(node.body))
    if not isinstance(node, tirx.SeqStmt):
        return node
    statements: list[Stmt] = []
    for place, statement in enumerate(node.seq):
        if isinstance(statement, tirx.For) and _is_annotated(statement):
            statements += [
                prefetches for after in node.seq[place + 1 :] if (prefetches := _prefetches(after)) is not None
            ]
        statements.append(prefetch_outputs(statement))
    return tirx.SeqStmt(statements)


def _is_annotated(node: Stmt) -> bool:
    return (isinstance(node, tirx.For) and ANNOTATION in node.annotations) or any(map(_is_annotated, children(node)))


def _prefetches(node: Stmt) -> Stmt | None:
    """Prefetches for the lines accessed by `node`, loops and conditions around one store; None if it is not plain."""
    if isinstance(node, tirx.IfThenElse):
        prefetches = _prefetches(node.then_case)
        return None if prefetches is None else tirx.IfThenElse(node.condition, prefetches, None)
    loops = []
    while isinstance(node, tirx.For):
        loops.append(node)
        node = node.body
    if not isinstance(node, tirx.BufferStore) or len(node.indices) != 1:
        return None
    size = _elements(node.buffer)
    read = {load.source: load for load in certain_loads(node.value) if _elements(load.source) >= size}
    places = [(node.buffer, node.indices[0], True), *((load.source, load.indices[0], False) for load in read.values())]
    prefetches = [one for buffer, index, write in places if (one := _lines(buffer, index, write, loops)) is not None]
    return tirx.SeqStmt(prefetches) if len(prefetches) > 1 else prefetches[0] if prefetches else None


def _lines(buffer: TvmBuffer, index: Expr, write: bool, loops: list[For]) -> Stmt | None:
    """Prefetches for the lines of the vectors at `index`; None if their addresses are unknown.

    Vectors that are not adjacent are prefetched one by one, unless each is a small part of a line.
    """
    vector = isinstance(index, tirx.Ramp)
    if vector and not (isinstance(index.stride, tirx.IntImm) and int(index.stride.value) == 1):
        return None
    base, lanes = (index.base, int(index.lanes)) if vector else (index, 1)
    of, _ = element_and_lanes(buffer.ty.dtype)
    in_a_line = max(1, LINE // (lanes * of.bytes))
    form = linear(base)
    if form is None:
        return None
    nest, places = list(loops), base
    if loops and form.factors.get(loops[-1].loop_var) == lanes:  # the first of the vectors in a line prefetches for all
        last = loops[-1]
        few = -(-(extent_of(last) or 1) // in_a_line)
        nest[-1] = tirx.For(last.loop_var, last.min, tirx.IntImm(last.extent.ty.dtype, few), int(last.kind), last.body)
        places = base + last.loop_var * (lanes * (in_a_line - 1))
    elif in_a_line > _MOST_PER_LINE:
        return None
    load = buffer.vload([places], str(buffer.ty.dtype))
    prefetches = prefetch_line(load, FIRST_CACHE, write=write)
    for loop in reversed(nest):
        prefetches = with_kind(loop, int(tirx.ForKind.SERIAL), prefetches)
    return prefetches


def _elements(buffer: TvmBuffer) -> int:
    return prod(int(extent.value) for extent in buffer.ty.shape)
