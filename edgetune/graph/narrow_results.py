"""Narrow results: what a kernel only widens at its end lies in memory as integers, and its readers widen it.

In a quantised model each tensor is quantised, and dequantised where an operator of floats reads it. Fusion joins both
with the operator before them; then the floats, four times as large, would lie in memory until the next kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.graph.macs import sums_products
from edgetune.graph.widened_integers import STORED, UnknownError, Widened, read_stages, stage_blocks
from edgetune.graph.written_loops import is_written
from edgetune.tvm_types import PrimFunc, SBlock, Stmt, TvmBuffer


@dataclass(frozen=True)
class NarrowResult:
    """Integers, `widened` by zero points and scales; the array of integers in it only says their shape and type.

    They are the parameter `source` of the kernel, or what `function` makes of its parameters `kept`, which lacks the
    last stages of the kernel, so many as are `dropped`.
    """

    widened: Widened
    source: int | None = None
    function: PrimFunc | None = None
    kept: tuple[int, ...] = ()
    dropped: int = 0


def widens_what_it_reads(function: PrimFunc, number: int) -> bool:
    """Whether a kernel may read integers instead of the numbers of a parameter: a product would widen each many times.

    What is computed of the parameter counts as it does, for it is computed where a product reads it.
    """
    if is_written(function):
        return False
    of_integers = [function.params[number]]
    apart = True

    def visit(block: SBlock) -> None:
        nonlocal apart
        if any(region.source.same_as(one) for region in block.reads for one in of_integers):
            apart = apart and not sums_products(block)
            of_integers.extend(region.source for region in block.writes)

    root = function.body.block.body if isinstance(function.body, s_tir.SBlockRealize) else function.body
    tvm_ffi.structural_walk(root, (s_tir.SBlock, visit))
    return apart


def narrow_result(function: PrimFunc, constants: Mapping[int, np.ndarray]) -> NarrowResult | None:
    """The integers that an unscheduled `function` of one output widens at its end; None if there are none.

    `constants` are the values of parameters, by number.
    """
    root = function.body
    if is_written(function) or not isinstance(root, s_tir.SBlockRealize) or root.block.match_buffers:
        return None
    body = root.block.body
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    reads, output = list(function.params[:-1]), function.params[-1]
    known = {reads[number]: value for number, value in constants.items()}
    for number, param in enumerate(reads):
        made = None if param in known else _widened(param, output, statements, known)
        if made is not None:
            return NarrowResult(made, source=number)
    for number, statement in enumerate(statements[:-1]):
        written = _written(statement)
        made = None if written is None else _widened(written, output, statements[number + 1 :], known)
        if written is not None and made is not None:
            kept = tuple(n for n, param in enumerate(reads) if any(_reads(s, param) for s in statements[: number + 1]))
            params = [*(reads[n] for n in kept), written]
            shorter = _shortened(function, params, statements[: number + 1])
            return NarrowResult(made, function=shorter, kept=kept, dropped=len(statements) - number - 1)
    return None


_BEYOND = 1 << 20
"""The number of the first place: greater than all zero points, which stand where something else is chosen."""


def _widened(
    integers: TvmBuffer, output: TvmBuffer, statements: list[Stmt], known: Mapping[TvmBuffer, np.ndarray]
) -> Widened | None:
    """How `statements` widen `integers`, each in its place, to `output`; None if they do more or less than that."""
    shape = [int(extent) for extent in output.shape]
    if str(integers.dtype) not in STORED or [int(extent) for extent in integers.shape] != shape or not shape:
        return None
    blocks = stage_blocks(statements)
    if blocks is None:
        return None
    numbered = _BEYOND + np.arange(int(np.prod(shape))).reshape(shape)
    kind = str(integers.dtype)
    begin = Widened(numbered, kind, np.zeros([1] * len(shape), "int32"), stored=kind)
    try:
        found = read_stages(blocks, {**known, integers: begin}).get(output)
    except UnknownError:
        return None
    if not isinstance(found, Widened) or found.dtype in STORED or not np.array_equal(found.integers, numbered):
        return None
    whole = np.broadcast_to(np.zeros((), kind), shape)
    return Widened(whole, found.dtype, found.zeros, found.scales)


def _written(statement: Stmt) -> TvmBuffer | None:
    """The tensor that the block of a statement writes."""
    while isinstance(statement, tirx.For):
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize) or len(statement.block.writes) != 1:
        return None
    return statement.block.writes[0].source


def _reads(statement: Stmt, buffer: TvmBuffer) -> bool:
    found: list[bool] = []
    tvm_ffi.structural_walk(statement, (ir.TensorLoad, lambda load: found.append(bool(load.source.same_as(buffer)))))
    return any(found)


def _shortened(function: PrimFunc, params: list[TvmBuffer], statements: list[Stmt]) -> PrimFunc:
    """`function` of other parameters, the last of which a stage of it wrote, with the `statements` up to that stage."""
    root = function.body.block
    body = statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)
    made = [written for written in map(_written, statements[:-1]) if written is not None]
    allocated = [buffer for buffer in root.alloc_buffers if any(buffer.same_as(one) for one in made)]
    block = s_tir.SBlock([], [], [], root.name_hint, body, None, allocated, annotations=root.annotations)
    realize = s_tir.SBlockRealize([], True, block)
    return s_tir.renew_defs(tirx.PrimFunc(params, realize, function.ret_type, function.attrs))
