"""Lowering for CUDA: turns a scheduled function into launches, each a grid of blocks of threads.

It runs the passes of TVM's `s_tir` pipeline that concern a GPU, up to where host and device code part. Loops stay
loops: nvcc unrolls those that index registers (see `edgetune.codegen.cuda.printer`). Sums over threads become shuffles
of warps (see `edgetune.codegen.cuda.warp_reduction`), or go through shared memory, in halving steps. Copies into shared
memory may run ahead of the sums that read them (see `edgetune.codegen.cuda.copies_ahead`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.codegen.cuda.copies_ahead import with_copies_ahead, without_single_stages
from edgetune.codegen.cuda.tiles import has_tiles
from edgetune.codegen.cuda.warp_reduction import with_warp_reductions
from edgetune.codegen.infinite_extrema import register_infinite_extrema
from edgetune.codegen.loop_names import with_loop_names
from edgetune.codegen.lower import hoist_initialisation, sole_function
from edgetune.codegen.traverse import children
from edgetune.errors import TVM_REFUSALS, KernelFailed
from edgetune.graph.flat_buffers import flatten_buffers
from edgetune.graph.tvm_errors import lowering_failed
from edgetune.graph.written_loops import in_order, is_written
from edgetune.tvm_types import (
    BufferLoad,
    BufferStore,
    Expr,
    For,
    IRModule,
    Pass,
    PrimFunc,
    SBlock,
    Stmt,
    TvmBuffer,
    TvmTarget,
    Var,
)

_THREADS = 1024  # the most of a block on any GPU that nvcc compiles for
_WARP, _THREADS_OF_LOOPS = 32, 128  # of a block whose threads run loops as they were written
_THREADS_Z, _BLOCKS_X, _BLOCKS = 64, 2**31 - 1, 65535  # CUDA C++ Programming Guide, table of technical specifications
AXES = ("x", "y", "z")

register_infinite_extrema()  # before any candidate is replayed


@dataclass(frozen=True)
class LoweredLaunch:
    """One launch of a lowered function: `extents` are those of blockIdx.x and so on, 1 where it is not there."""

    body: Stmt
    extents: dict[str, int]

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks along x, y and z."""
        return self._along("blockIdx")

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block along x, y and z."""
        return self._along("threadIdx")

    def _along(self, of: str) -> tuple[int, int, int]:
        x, y, z = (self.extents.get(f"{of}.{axis}", 1) for axis in AXES)
        return x, y, z


@dataclass(frozen=True)
class LoweredLaunches:
    """A lowered function: its launches in order, and the buffers in device memory that lie `between` them.

    `views` are the statements that declare flat views of the parameters.
    """

    function: PrimFunc
    launches: tuple[LoweredLaunch, ...]
    between: tuple[TvmBuffer, ...]
    views: tuple[Stmt, ...]


def lower_launches(mod: IRModule, arch: str, shared_bytes: int) -> LoweredLaunches:
    """Lower a module of one function scheduled for a GPU of `arch`, such as sm_75.

    Raises KernelFailed where a pass refuses the schedule, where work lies outside of launches, or where a launch needs
    more threads or more shared memory than a block has.
    """
    target = lowering_target(arch, shared_bytes)
    try:
        with target:
            named = without_single_stages(with_loop_names(_in_threads(sole_function(mod))))
            with _sharing(named):
                flat = sole_function(_to_flat()(tvm.IRModule({"main": named})))
            hoisted = flat.with_body(hoist_initialisation(flat.body))
            plain = sole_function(_simplified()(tvm.IRModule({"main": hoisted})))
            shuffled = with_warp_reductions(plain)
            waiting = sole_function(_with_barriers(target)(tvm.IRModule({"main": shuffled})))
            ahead = tvm.IRModule({"main": with_copies_ahead(waiting)})
            function = sole_function(tirx.transform.CommonSubexprElim()(ahead))
    except TVM_REFUSALS as error:
        raise KernelFailed(lowering_failed(error)) from error
    launches: list[LoweredLaunch] = []
    between: list[TvmBuffer] = []
    views: list[Stmt] = []
    for statement in _flattened(function.body):
        if isinstance(statement, tirx.AttrStmt) and statement.attr_key == "thread_extent":
            launches.append(_launch(_without_device_memory(statement, between)))
        elif isinstance(statement, tirx.AllocBuffer):
            between.append(statement.buffer)
        elif isinstance(statement, tirx.DeclBuffer):
            views.append(statement)
        elif not isinstance(statement, tirx.Evaluate):
            raise KernelFailed(f"a {type(statement).__name__} of the schedule lies outside of every launch")
    return LoweredLaunches(function, tuple(launches), tuple(between), tuple(views))


def _in_threads(function: PrimFunc) -> PrimFunc:
    """A function of written loops with a launch for each nest, a thread for each iteration of its parallel loops."""
    if not is_written(function):
        return function
    root = function.body.block
    statements = root.body.seq if isinstance(root.body, tirx.SeqStmt) else [root.body]
    memory: list[TvmBuffer] = list(root.alloc_buffers)
    nests = [_launched(nest, memory) for nest in statements]
    body = nests[0] if len(nests) == 1 else tirx.SeqStmt(nests)
    block = s_tir.SBlock([], root.reads, root.writes, root.name_hint, body, None, memory)
    return in_order(function.with_body(s_tir.SBlockRealize([], True, block)))


def _launched(nest: Stmt, memory: list[TvmBuffer]) -> Stmt:
    """A nest as blocks of threads; its serial loops run in each thread, in their order.

    A thread keeps single variables in registers. Each larger buffer of a thread becomes a row of device memory, and
    `memory` gets the buffer of all rows.
    """
    parallel: list[For] = []
    serial: list[For] = []
    while isinstance(nest, tirx.For):
        (parallel if int(nest.kind) == int(tirx.ForKind.PARALLEL) else serial).append(nest)
        nest = nest.body
    for loop in reversed(serial):
        nest = tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, nest)
    count = prod(int(loop.extent) for loop in parallel)
    threads = min(_THREADS_OF_LOOPS, -(-count // _WARP) * _WARP) if count > 1 else 1
    block, thread = (tirx.Var(name, "int32") for name in ("block", "thread"))
    number = block * threads + thread
    nest = _with_rows(nest, count, number, memory)
    if count % threads:
        nest = tirx.IfThenElse(number < count, nest, None)
    values, step = {}, 1
    for loop in reversed(parallel):
        values[loop.loop_var] = tirx.floormod(tirx.floordiv(number, step), int(loop.extent))
        step *= int(loop.extent)
    nest = tvm_ffi.structural_map(nest, (ir.Var, lambda variable: values.get(variable, variable)))
    for variable, axis, extent in ((thread, "threadIdx.x", threads), (block, "blockIdx.x", -(-count // threads))):
        bounds = ir.Range.from_min_extent(tirx.IntImm("int32", 0), tirx.IntImm("int32", extent))
        bound = tirx.IterVar(bounds, tirx.Var(axis, "int32"), tirx.IterVar.ThreadIndex, axis)
        nest = tirx.For(variable, bounds.min, bounds.extent, tirx.ForKind.THREAD_BINDING, nest, bound)
    return nest


def _with_rows(nest: Stmt, count: int, number: Expr, memory: list[TvmBuffer]) -> Stmt:
    """`nest` whose blocks have single variables alone; row `number` of `count` stands for each larger buffer."""
    rows: dict[TvmBuffer, TvmBuffer] = {}

    def found(block: SBlock) -> SBlock:
        large = [buffer for buffer in block.alloc_buffers if prod(int(extent) for extent in buffer.shape) > 1]
        for buffer in large:
            extents = [tirx.IntImm("int32", count), *buffer.shape]
            rows[buffer] = tirx.decl_buffer(extents, str(buffer.dtype), buffer.name)
        own = [buffer for buffer in block.alloc_buffers if buffer not in rows]
        return s_tir.SBlock([], block.reads, block.writes, block.name_hint, block.body, None, own) if large else block

    def load(one: BufferLoad) -> BufferLoad:
        row = rows.get(one.source)
        return one if row is None else tirx.BufferLoad(row, [number, *one.indices])

    def store(one: BufferStore) -> BufferStore:
        row = rows.get(one.buffer)
        return one if row is None else tirx.BufferStore(row, one.value, [number, *one.indices])

    nest = tvm_ffi.structural_map(nest, (s_tir.SBlock, found), order="post")
    memory += rows.values()
    return tvm_ffi.structural_map(nest, [(ir.TensorLoad, load), (tirx.BufferStore, store)], order="post")


def _sharing(function: PrimFunc) -> tvm.transform.PassContext:
    """Settings by which buffers of one size share memory, but where tiles lie in registers: sums have an own place."""
    return tvm.transform.PassContext(config={"tirx.merge_static_smem": has_tiles(function.body)})


@cache
def lowering_target(arch: str, shared_bytes: int) -> TvmTarget:
    """TVM's target for schedules and passes; no code is made for it. Warps of one thread: see the module's text."""
    facts = {
        "kind": "cuda",
        "arch": arch,
        "max_threads_per_block": _THREADS,
        "max_num_threads": _THREADS,
        "max_shared_memory_per_block": shared_bytes,
        "thread_warp_size": 1,
    }
    return tvm.target.Target(facts, host={"kind": "llvm"})


@cache
def _to_flat() -> Pass:
    return tvm.transform.Sequential(
        [
            s_tir.transform.CanonicalizeLoop(),
            s_tir.transform.LowerCrossThreadReduction(),
            s_tir.transform.LowerInitBlock(),
            s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
            s_tir.transform.ConvertBlocksToOpaque(),
            s_tir.transform.LiftThreadBinding(),
            s_tir.transform.ManifestSharedMemoryLocalStage(),
            s_tir.transform.CompactBufferAllocation(),
            s_tir.transform.LowerAutoCopy(),
            s_tir.transform.UnifyThreadBinding(),
            s_tir.transform.LowerMatchBuffer(),
            s_tir.transform.StmtSimplify(),
            s_tir.transform.AnnotateIrregularLoop(),
            s_tir.transform.LowerOpaqueBlock(),
            flatten_buffers(),
            tirx.transform.NarrowDataType(32),
            s_tir.transform.LoopPartition(),
            tirx.transform.VectorizeLoop(False),
            s_tir.transform.InjectVirtualThread(),
            tirx.transform.StorageRewrite(),
            s_tir.transform.HoistIfThenElse(),
        ]
    )


@cache
def _simplified() -> Pass:
    return tvm.transform.Sequential(
        [
            s_tir.transform.RenormalizeSplitPattern(),
            tirx.transform.StmtSimplify(),
            tirx.transform.RemoveNoOp(),
            s_tir.transform.RewriteUnsafeSelect(),
        ]
    )


@cache
def _with_barriers(target: TvmTarget) -> Pass:
    return tvm.transform.Sequential(
        [
            tirx.transform.BindTarget(target),
            s_tir.transform.ThreadSync("shared"),
            s_tir.transform.LowerThreadAllreduce(),
        ]
    )


def _flattened(node: Stmt) -> Iterator[Stmt]:
    """The statements of a sequence, of attributes that bind no threads, and of single-trip loops around launches."""
    if isinstance(node, tirx.SeqStmt):
        for child in node.seq:
            yield from _flattened(child)
    elif isinstance(node, tirx.AttrStmt) and node.attr_key != "thread_extent":
        yield from _flattened(node.body)
    else:
        yield node


def _without_device_memory(launch: Stmt, between: list[TvmBuffer]) -> Stmt:
    """A launch without the buffers in device memory that passes moved into it; they join those `between` launches."""

    def moved(node: Stmt) -> Stmt:
        if str(node.buffer.scope()) != "global":
            return node
        between.append(node.buffer)
        return tirx.Evaluate(0)

    return tvm_ffi.structural_map(launch, (tirx.AllocBuffer, moved))


def _launch(node: Stmt) -> LoweredLaunch:
    extents: dict[str, int] = {}
    for axis, extent in bound_axes(node):
        if not isinstance(extent, tirx.IntImm):
            raise KernelFailed(f"the extent of {axis} is not constant")
        if extents.setdefault(axis, int(extent.value)) != int(extent.value):
            raise KernelFailed(f"{axis} has two extents in one launch: {extents[axis]} and {int(extent.value)}")
    launch = LoweredLaunch(node, extents)
    if prod(launch.block) > _THREADS:
        raise KernelFailed(f"a block of {prod(launch.block)} threads is more than a GPU has ({_THREADS})")
    if launch.grid[0] > _BLOCKS_X or max(launch.grid[1:]) > _BLOCKS or launch.block[2] > _THREADS_Z:
        raise KernelFailed(f"a grid of {launch.grid} blocks of {launch.block} threads is more than a GPU has")
    return launch


def bound_axes(node: Stmt) -> Iterator[tuple[str, ir.Expr]]:
    """The thread axes bound in statements, such as threadIdx.x, each with its extent."""
    if isinstance(node, tirx.AttrStmt) and node.attr_key == "thread_extent":
        yield str(node.node.thread_tag), node.value
    for child in children(node):
        yield from bound_axes(child)


def thread_variable(node: Stmt) -> Var:
    """The variable that a `thread_extent` attribute binds."""
    return node.node.var
