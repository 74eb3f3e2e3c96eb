"""Reductions over threads as shuffles of warps: sums, maxima and minima of adjacent threads.

Up to 32 threads exchange registers, without shared memory and barriers. More meet once: each warp leaves its result in
shared memory, and after one barrier every warp reduces these. What does not fit (threads that are not adjacent, numbers
that are no power of two, warps that are not whole) is left to TVM's halving steps in shared memory.
"""

from __future__ import annotations

from math import prod

from tvm import ir, tirx

from edgetune.codegen.cuda.tidy import LOCAL, SHARED, rebuilt, statements_in
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.intrinsics import operator
from edgetune.codegen.memory import Survey
from edgetune.codegen.traverse import children
from edgetune.tvm_types import Expr, PrimFunc, Stmt, TvmBuffer, Var

WARP = 32
_FUNCTIONS = {tirx.Add: "warp_sum", tirx.Max: "warp_max", tirx.Min: "warp_min"}
_TYPES = ("float32", "float16", "bfloat16")
_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")

SNIPPETS = {
    "warp_sum": ("Sum", "value += other;"),
    "warp_max": ("Maximum", "value = other > value || other != other ? other : value;"),
    "warp_min": ("Minimum", "value = other < value || other != other ? other : value;"),
}
"""What the functions give, and the statement that joins two values; NaN stays NaN."""


def warp_function(name: str, of: str) -> str:
    """The device function `name`, for elements of the type whose short name is `of` and whose CUDA name is float."""
    what, statement = SNIPPETS[name]
    return (
        f"/* {what} over `width` adjacent lanes, a power of two, for each of them; all lanes of the warp call it. */\n"
        f"static __device__ __forceinline__ float @{name}_{of}(float value, int width)\n{{\n"
        "    for (int step = width / 2; step > 0; step /= 2) {\n"
        "        const float other = __shfl_xor_sync(0xffffffffu, value, step);\n"
        f"        {statement}\n"
        "    }\n"
        "    return value;\n}\n"
    )


def with_warp_reductions(function: PrimFunc) -> PrimFunc:
    """A flat function whose reductions over threads are shuffles where that fits."""
    return function.with_body(_lowered(function.body, {}))


def _lowered(node: Stmt, threads: dict[str, tuple[Var, int]]) -> Stmt:
    if isinstance(node, tirx.AttrStmt) and node.attr_key == "thread_extent":
        threads = {**threads, str(node.node.thread_tag): (node.node.var, int(node.value))}
    if isinstance(node, tirx.AttrStmt) and node.attr_key == "reduce_scope":
        return _shuffled(node, threads) or node
    return rebuilt(node, [_lowered(child, threads) for child in children(node)])


def _shuffled(node: Stmt, threads: dict[str, tuple[Var, int]]) -> Stmt | None:
    """The reduction as statements of shuffles; None where it does not fit."""
    call = node.body.value if isinstance(node.body, tirx.Evaluate) else None
    results = list(node.node.result)
    function = _FUNCTIONS.get(type(results[0])) if len(results) == 1 else None
    if function is None or not isinstance(call, ir.Call) or operator(call) != "tvm_thread_allreduce":
        return None
    _, value, condition, result, *over = call.args
    extents = [threads[axis][1] for axis in _AXES if axis in threads]
    x, count = threads.get(_AXES[0], (None, 0))
    adjacent = len(over) == 1 and x is not None and over[0].same_as(x) and count & (count - 1) == 0
    whole = prod(extents) % WARP == 0 and str(value.ty) in _TYPES
    if not adjacent or not whole or not isinstance(condition, tirx.IntImm) or not int(condition.value):
        return None
    if count <= WARP:
        return _left(result, _call(function, value, count))
    warps = count // WARP
    row = _row(threads) * warps
    partial = tirx.decl_buffer([prod(extents) // WARP], "float32", "partial", scope=SHARED)
    zero = tirx.IntImm("int32", 0)
    own = _left(result, _call(function, value, WARP))
    left = tirx.BufferStore(partial, _wide(tirx.BufferLoad(result.source, list(result.indices))), [row + x // WARP])
    joined = _left(result, _call(function, tirx.BufferLoad(partial, [row + x % warps]), warps))
    return tirx.SeqStmt([tirx.AllocBuffer(partial), own, tirx.IfThenElse(tirx.EQ(x % WARP, zero), left, None), joined])


def _row(threads: dict[str, tuple[Var, int]]) -> Expr:
    """The number of a row of threads along x."""
    y, rows = threads.get(_AXES[1], (tirx.IntImm("int32", 0), 1))
    z, _ = threads.get(_AXES[2], (tirx.IntImm("int32", 0), 1))
    return z * rows + y


def _call(function: str, value: Expr, width: int) -> Expr:
    return tirx.call_extern("float32", function, _wide(value), tirx.IntImm("int32", width))


def _wide(value: Expr) -> Expr:
    return value if str(value.ty) == "float32" else tirx.Cast("float32", value)


def _left(result: Expr, value: Expr) -> Stmt:
    """The statement that leaves a float in a register, which is one for elements of 16 bits as well."""
    of = str(result.source.ty.dtype)
    narrow = value if of == "float32" else tirx.Cast(of, value)
    return tirx.BufferStore(result.source, narrow, list(result.indices))


def shuffle_name(call: ir.Call) -> str:
    """The function of this file that a call names, "" for any other."""
    name = str(call.args[0].value) if operator(call) == "call_extern" else ""
    return name if name in SNIPPETS else ""


def wide_sums(body: Stmt, found: Survey) -> set[TvmBuffer]:
    """Buffers of 16-bit elements in the body of a kernel that hold sums, maxima, or copies of them.

    They lie in registers and shared memory as floats: only what leaves the kernel is rounded. TVM gives a sum the type
    of the tensor that it becomes, and so do the buffers that it passes through on its way to all of a block.
    """
    stores = [node for node in statements_in(body) if isinstance(node, tirx.BufferStore) and _narrow(node.buffer)]
    wide = {store.buffer for store in stores if store.buffer in found.updated or is_shuffled(store.value)}
    while more := {s.buffer for s in stores if isinstance(s.value, ir.TensorLoad) and s.value.source in wide} - wide:
        wide |= more
    return wide - set(found.alias) - set(found.alias.values())


def is_shuffled(value: Expr) -> bool:
    """Whether a value is what a shuffle gives, as a number of 16 bits."""
    return isinstance(value, tirx.Cast) and isinstance(value.value, ir.Call) and bool(shuffle_name(value.value))


def _narrow(buffer: TvmBuffer) -> bool:
    of, lanes = element_and_lanes(buffer.ty.dtype)
    return of.half and lanes == 1 and str(buffer.scope()) in {LOCAL, SHARED}
