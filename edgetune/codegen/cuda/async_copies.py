"""Asynchronous copies into shared memory (the instruction cp.async): statements, and the device functions they call.

A thread begins copies of 4, 8 or 16 bytes, closes a group of them, and waits for groups: what it began is there for
itself then, and for others after a barrier. The functions are small ones around CUDA's pipeline primitives (CUDA C++
Programming Guide, "Pipeline Primitives Interface"), which copy at once before compute capability 8.0.
"""

from __future__ import annotations

from tvm import ir, tirx

from edgetune.codegen.intrinsics import operator
from edgetune.tvm_types import Expr, Stmt

ASYNCHRONOUS = "edgetune_asynchronous"
"""Attribute of statements that copy into shared memory without waiting."""

SIZES = (4, 8, 16)
"""Bytes of one copy."""

_COMMIT, _WAIT = "commit_copies", "wait_for_copies"
_COPY = """/* Begins to copy SIZE aligned bytes into shared memory; zeroes, without a read, unless `holds`. */
static __device__ __forceinline__ void @copy_async_SIZE(void *to, const void *from, bool holds = true)
{
    __pipeline_memcpy_async(to, from, SIZE, holds ? 0 : SIZE);
}
"""
_GROUPS = {
    _COMMIT: """/* Closes the group of the copies that this thread has begun since the last one. */
static __device__ __forceinline__ void @commit_copies()
{
    __pipeline_commit();
}
""",
    _WAIT: """/* Waits for the groups of this thread, but the last `later`; other threads see them after a barrier. */
static __device__ __forceinline__ void @wait_for_copies(int later)
{
    __pipeline_wait_prior((unsigned)later);
}
""",
}
SNIPPETS = ("copy_async", *_GROUPS)
"""Kinds of snippets."""


def copy_functions(kind: str, of: str) -> str:
    """The device function of the snippet `kind`; `of` is the bytes of a copy."""
    return _COPY.replace("SIZE", of) if kind == SNIPPETS[0] else _GROUPS[kind]


def asynchronous(copies: Stmt) -> Stmt:
    """Statements that copy without waiting."""
    return tirx.AttrStmt(ir.StringImm(""), ASYNCHRONOUS, tirx.IntImm("int32", 1), copies)


def commit_copies() -> Stmt:
    """The statement that closes a group."""
    return tirx.Evaluate(tirx.call_extern("int32", _COMMIT))


def wait_for_copies(later: int) -> Stmt:
    """The statement that waits for all groups but the last `later`."""
    return tirx.Evaluate(tirx.call_extern("int32", _WAIT, tirx.IntImm("int32", later)))


def group_call(value: Expr) -> tuple[str, str] | None:
    """The function for groups that a value calls, with the text of its arguments; None for any other value."""
    if not isinstance(value, ir.Call) or operator(value) != "call_extern":
        return None
    name, *given = value.args
    return (str(name.value), ", ".join(str(int(arg)) for arg in given)) if str(name.value) in _GROUPS else None
