"""Software pipelining: copies into shared memory run ahead of the sums that read them, each step in its own stage.

Of a loop whose steps copy operands into shared memory, wait for all threads and sum up, copies of the next steps begin
before the sums of a step, and are waited for in their own step. One barrier a step is enough: it stands between the
wait for the copies of a step and the sums, and after it no thread reads the stage that the next copies fill. This is
the multistage pipeline of CUDA's Programming Guide ("Asynchronous Data Copies") and of CUTLASS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import loads_in
from edgetune.codegen.cuda.async_copies import asynchronous, commit_copies, wait_for_copies
from edgetune.codegen.cuda.tidy import LOCAL, SHARED, is_barrier, rebuilt, statements_in, with_values
from edgetune.codegen.cuda.tiles import ALIGNMENT
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.memory import size_of
from edgetune.codegen.traverse import children, expressions
from edgetune.errors import KernelFailed
from edgetune.tvm_types import Expr, For, PrimFunc, Stmt, TvmBuffer

STAGES = "edgetune_copy_stages"
"""Annotation of a loop: the steps whose copies lie in shared memory at once; 1 where no copies run ahead."""


@dataclass(frozen=True)
class _Step:
    """One step of a loop: what it copies into shared memory, a barrier, and `rest`, which reads that."""

    copies: Stmt
    barrier: Stmt
    rest: Stmt

    @classmethod
    def of(cls, loop: For) -> _Step:
        """The parts of a loop's body. Raises KernelFailed where there are others, or where copies are no copies."""
        parts = list(_flat(loop.body))
        places = [place for place, part in enumerate(parts) if is_barrier(part)]
        copies = [part for part in parts[: places[-1]] if not is_barrier(part)] if places else []
        rest = parts[places[-1] + 1 :] if places else []
        within = [node for part in (*copies, *rest) for node in statements_in(part)]
        between = [place for place in places[:-1] if any(not is_barrier(part) for part in parts[:place])]
        if not copies or not rest or between or any(is_barrier(node) for node in within):
            raise KernelFailed("copies can only run ahead in a loop that copies, waits for all threads, and sums up")
        found = cls(_sequence(copies), parts[places[-1]], _sequence(rest))
        if _filled(found.rest):
            raise KernelFailed("copies cannot run ahead in a loop that writes shared memory besides")
        if not _fills_from_memory(found.copies):
            raise KernelFailed("copies can only run ahead from device memory into shared memory")
        return found


def without_single_stages(function: PrimFunc) -> PrimFunc:
    """A scheduled function without STAGES of loops in which no copies can run ahead: of one stage, or of one step.

    An annotation keeps a loop of one step, and the barriers in it.
    """

    def plain(loop: For) -> For:
        if STAGES not in loop.annotations or min(_stages(loop), int(loop.extent)) > 1:
            return loop
        return _without_stages(loop, loop.body)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, plain), order="post"))


def with_copies_ahead(function: PrimFunc) -> PrimFunc:
    """A flat function with barriers, whose loops with STAGES above 1 have copies that run ahead.

    Raises KernelFailed where such a loop has another form.
    """
    body, found = function.body, _next_loop(function.body)
    if found is None:
        return function
    while found is not None:
        body = _pipelined(body, found)
        found = _next_loop(body)
    changed = tvm.IRModule({"main": function.with_body(body)})
    own_variables = tvm.transform.Sequential([tirx.transform.ConvertSSA(), tirx.transform.StmtSimplify()])
    return own_variables(changed)["main"]


def _next_loop(body: Stmt) -> For | None:
    return next((node for node in statements_in(body) if _stages(node) > 1), None)


def _stages(node: Stmt) -> int:
    return int(node.annotations.get(STAGES, 1)) if isinstance(node, tirx.For) else 1


def _pipelined(body: Stmt, loop: For) -> Stmt:
    step, stages = _Step.of(loop), _stages(loop)
    if any(isinstance(node, tirx.For) and _holds(node, loop) for node in _outside(body, loop)):
        raise KernelFailed("copies cannot run ahead in a loop inside of another one: nothing waits between its turns")
    found = _filled(step.copies)
    if any(found & set(_touched(node)) for node in _outside(body, loop)):
        raise KernelFailed("copies cannot run ahead into shared memory that is used outside of their loop")
    staged = {buffer: _staged(buffer, stages) for buffer in found}
    return _replaced(body, loop, _loop(loop, step, stages, staged), staged)


@dataclass(frozen=True)
class _Staged:
    """A buffer with room for several stages, each of `size` elements."""

    buffer: TvmBuffer
    size: int


def _staged(buffer: TvmBuffer, stages: int) -> _Staged:
    """The buffer that replaces `buffer`: each stage is aligned as the first one."""
    of, _ = element_and_lanes(buffer.ty.dtype)
    size = -(-size_of(buffer) // ALIGNMENT) * ALIGNMENT // of.bytes
    made = tirx.decl_buffer([stages * size], str(buffer.ty.dtype), str(buffer.name), scope=SHARED)
    return _Staged(made, size)


def _loop(loop: For, step: _Step, stages: int, staged: Mapping[TvmBuffer, _Staged]) -> Stmt:
    """The loop with copies that run ahead, after those of the first steps."""
    variable, count = loop.loop_var, int(loop.extent.value)
    ahead = min(stages - 1, count)

    def copies(at: Expr, stage: Expr) -> Stmt:
        return asynchronous(_in_stage(with_values(step.copies, {variable: at}), staged, stage))

    first = [part for number in range(ahead) for part in (copies(_int(number), _int(number)), commit_copies())]
    later = copies(variable + ahead, (variable + ahead) % stages)
    body = tirx.SeqStmt(
        [
            wait_for_copies(ahead - 1),
            step.barrier,
            tirx.IfThenElse(variable < count - ahead, later, None),
            commit_copies(),
            _in_stage(step.rest, staged, variable % stages),
        ]
    )
    return tirx.SeqStmt([*first, _without_stages(loop, body)])


def _without_stages(loop: For, body: Stmt) -> For:
    """A loop with another body, and without STAGES."""
    other = {name: value for name, value in loop.annotations.items() if name != STAGES}
    own = loop.loop_var, loop.min, loop.extent, int(loop.kind)
    return tirx.For(*own, body, loop.thread_binding, other, loop.step, loop.span)


def _int(number: int) -> Expr:
    return tirx.IntImm("int32", number)


def _in_stage(node: Stmt, staged: Mapping[TvmBuffer, _Staged], stage: Expr) -> Stmt:
    """A statement that has its buffers in a stage of theirs."""

    def load(one: Expr) -> Expr:
        if one.source not in staged:
            return one
        found = staged[one.source]
        return tirx.BufferLoad(found.buffer, [stage * found.size + one.indices[0]])

    def store(one: Stmt) -> Stmt:
        if one.buffer not in staged:
            return one
        found = staged[one.buffer]
        return tirx.BufferStore(found.buffer, one.value, [stage * found.size + one.indices[0]])

    return tvm_ffi.structural_map(node, [(ir.TensorLoad, load), (tirx.BufferStore, store)], order="post")


def _replaced(node: Stmt, loop: For, by: Stmt, staged: Mapping[TvmBuffer, _Staged]) -> Stmt:
    """`node` with another statement in the place of a loop, and room for all stages."""
    if node.same_as(loop):
        return by
    if isinstance(node, tirx.AllocBuffer) and node.buffer in staged:
        return tirx.AllocBuffer(staged[node.buffer].buffer)
    return rebuilt(node, [_replaced(child, loop, by, staged) for child in children(node)])


def _flat(node: Stmt) -> Iterator[Stmt]:
    if isinstance(node, tirx.SeqStmt):
        for child in node.seq:
            yield from _flat(child)
    else:
        yield node


def _sequence(parts: Sequence[Stmt]) -> Stmt:
    return parts[0] if len(parts) == 1 else tirx.SeqStmt(parts)


def _outside(node: Stmt, loop: For) -> Iterator[Stmt]:
    """A statement and all inside it, but a loop."""
    if not node.same_as(loop):
        yield node
        for child in children(node):
            yield from _outside(child, loop)


def _holds(node: Stmt, loop: For) -> bool:
    """Whether a loop is inside a statement."""
    return any(one.same_as(loop) for one in statements_in(node))


def _fills_from_memory(copies: Stmt) -> bool:
    """Whether copies write shared memory alone, and read device memory alone."""
    inside = list(statements_in(copies))
    read = [load.source for node in inside for load in loads_in(expressions(node))]
    written = [node.buffer for node in inside if isinstance(node, tirx.BufferStore)]
    near = (SHARED, LOCAL)
    return all(str(one.scope()) == SHARED for one in written) and not any(str(one.scope()) in near for one in read)


def _filled(node: Stmt) -> set[TvmBuffer]:
    """Buffers in shared memory that a statement writes."""
    stored = [one.buffer for one in statements_in(node) if isinstance(one, tirx.BufferStore)]
    return {buffer for buffer in stored if str(buffer.scope()) == SHARED}


def _touched(node: Stmt) -> Sequence[TvmBuffer]:
    """Buffers that one statement reads and writes, without those inside it."""
    read = [load.source for load in loads_in(expressions(node))]
    return [*read, node.buffer] if isinstance(node, tirx.BufferStore) else read
