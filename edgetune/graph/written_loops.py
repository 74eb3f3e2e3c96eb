"""Written loops: kernels that no tensor expression can say, because steps follow one another or places are data.

A sort moves elements to places that comparisons decide; a scatter writes where an index says, and the last one wins.
Such a kernel is a function of loops, written out. It has no axes that a schedule could split: its loops run as they
stand. A loop is `parallel` if each element that is written is touched in one of its iterations only, whatever the loops
around it do: threads share it, and on a GPU each iteration is a thread. All others keep their order, so a result never
depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import tvm_ffi
from tvm import relax, s_tir, tirx

from edgetune.graph.program import byte_size
from edgetune.tvm_types import BufferStore, Expr, For, PrimFunc, SBlock, Stmt, TvmBuffer, Var

WRITTEN = "edgetune.written_loops"
"""Attribute of such a function."""

_INDEX = "int32"
_LINE = 64  # bytes of a cache line
_OPAQUE = 8  # TVM's operator pattern of a call that nothing is fused with


class Variable:
    """A number that a kernel changes while it runs: one element of memory, which the printers keep in a register."""

    def __init__(self, name: str, dtype: str = _INDEX) -> None:
        self.buffer: TvmBuffer = tirx.decl_buffer([integer(1)], dtype, name, scope="local")

    @property
    def value(self) -> Expr:
        """What it is now."""
        return tirx.BufferLoad(self.buffer, [integer(0)])

    def set(self, value: Expr) -> BufferStore:
        """The statement that changes it."""
        return tirx.BufferStore(self.buffer, value, [integer(0)])


def integer(value: int) -> Expr:
    """A constant index."""
    return tirx.IntImm(_INDEX, value)


def constant(value: float, dtype: str) -> Expr:
    """A constant of a type."""
    return tirx.const(value, dtype)


def tensor(name: str, shape: Sequence[int], dtype: str) -> TvmBuffer:
    """A parameter of a kernel."""
    return tirx.decl_buffer([integer(extent) for extent in shape], dtype, name)


def store(buffer: TvmBuffer, indices: Sequence[Expr], value: Expr) -> BufferStore:
    """The statement that writes one element."""
    return tirx.BufferStore(buffer, value, list(indices))


def load(buffer: TvmBuffer, indices: Sequence[Expr]) -> Expr:
    """One element."""
    return tirx.BufferLoad(buffer, list(indices))


def sequence(*statements: Stmt) -> Stmt:
    """Statements that run one after the other, at least one."""
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def loop(name: str, extent: int, body: Callable[[Var], Stmt], *, parallel: bool = False) -> For:
    """A loop over [0, `extent`)."""
    variable = tirx.Var(name, _INDEX)
    kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
    return tirx.For(variable, integer(0), integer(extent), kind, body(variable))


def nest(extents: Sequence[tuple[str, int]], body: Callable[[list[Var]], Stmt], parallel: Sequence[bool] = ()) -> Stmt:
    """Loops in each other, outermost first; `parallel` says which of them are, and the others are not."""
    variables = [tirx.Var(name, _INDEX) for name, _ in extents]
    statement = body(variables)
    shared = [*parallel, *[False] * len(extents)]
    for variable, (_, extent), is_shared in reversed(list(zip(variables, extents, shared, strict=False))):
        kind = tirx.ForKind.PARALLEL if is_shared else tirx.ForKind.SERIAL
        statement = tirx.For(variable, integer(0), integer(extent), kind, statement)
    return statement


def memory(name: str, extent: int, dtype: str) -> TvmBuffer:
    """Memory that a kernel has while it runs: `extent` elements."""
    return tirx.decl_buffer([integer(extent)], dtype, name)


def using(variables: Sequence[Variable], *statements: Stmt, also: Sequence[TvmBuffer] = ()) -> Stmt:
    """Statements with variables, and `also` memory, of their own."""
    body = sequence(*statements)
    block = s_tir.SBlock([], [], [], "own", body, None, [*(one.buffer for one in variables), *also])
    return s_tir.SBlockRealize([], True, block)


def written_function(params: Sequence[TvmBuffer], *nests: Stmt) -> PrimFunc:
    """The function of these parameters, outputs last, that runs `nests` one after the other."""
    root = s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", sequence(*nests)))
    return tirx.PrimFunc(list(params), root).with_attr("op_pattern", _OPAQUE).with_attr(WRITTEN, 1)


def is_written(function: PrimFunc) -> bool:
    """Whether a function is of written loops."""
    return WRITTEN in (function.attrs or {})


def bytes_of(buffer: TvmBuffer) -> int:
    """Bytes of `memory`, in whole cache lines; none of a `Variable`."""
    extents = tuple(int(extent) for extent in buffer.shape)
    return -(-byte_size(extents, str(buffer.dtype)) // _LINE) * _LINE if prod(extents) > 1 else 0


def own_memory(function: PrimFunc) -> int:
    """Bytes of the `memory` of a written function, each part in whole cache lines; 0 for any other function."""
    sizes: list[int] = []

    def add(block: SBlock) -> None:
        sizes.extend(bytes_of(buffer) for buffer in block.alloc_buffers)

    if is_written(function):
        tvm_ffi.structural_walk(function.body, (s_tir.SBlock, add))
    return sum(sizes)


def in_order(function: PrimFunc) -> PrimFunc:
    """`function` with all loops for one thread."""

    def serial(one: For) -> For:
        if int(one.kind) != int(tirx.ForKind.PARALLEL):
            return one
        return tirx.For(one.loop_var, one.min, one.extent, tirx.ForKind.SERIAL, one.body, None, one.annotations)

    return tvm_ffi.structural_map(function, (tirx.For, serial), order="post")


def call_written(
    builder: relax.BlockBuilder, name: str, function: PrimFunc, arguments: Sequence[relax.Expr]
) -> list[relax.Expr]:
    """The outputs of a call of a written function, whose first parameters are `arguments`."""
    outputs = [
        relax.TensorType([int(extent) for extent in param.shape], str(param.dtype))
        for param in function.params[len(arguments) :]
    ]
    called = builder.add_func(function, name)
    result = builder.emit(relax.call_tir(called, relax.Tuple(list(arguments)), outputs))
    return [result] if len(outputs) == 1 else [builder.emit(relax.TupleGetItem(result, n)) for n in range(len(outputs))]
