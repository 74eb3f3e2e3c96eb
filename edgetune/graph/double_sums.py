"""Double-precision accumulation: float sums of a kernel are accumulated in float64, as a reference for every schedule.

If float32 adds a million terms one after the other, the error exceeds any tolerance, and every schedule that sums more
accurately differs from that result. Terms, products, extremes and integer sums stay as the kernel defines them.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.tvm_types import BufferLoad, BufferStore, Expr, Node, PrimFunc, SBlock, Stmt, TvmBuffer, Var

_NARROW = frozenset({"float16", "bfloat16", "float32"})
_DOUBLE = "float64"
_SUMS = (tirx.Add, tirx.Sub)
_ARITHMETIC = (*_SUMS, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)


def in_double(function: PrimFunc) -> PrimFunc:
    """`function` whose reductions accumulate float16, bfloat16 or float32 sums in float64.

    Every later read of a sum gets it rounded once to its own type. A parameter that holds sums becomes float64, and the
    caller rounds it.
    """
    sums = _Sums()
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, sums.add))
    if not sums.doubles:
        return function
    callbacks = [
        (tirx.BufferStore, sums.store),
        (tirx.Bind, sums.bind),
        (ir.TensorLoad, sums.load),
        (ir.Var, sums.variable),
    ]
    # The walk visits each replacement again: it contains nothing that has a float64 counterpart.
    return tvm_ffi.structural_map(function, callbacks, order="pre")


class _Sums:
    """Buffers that hold sums: `doubles` has the float64 buffer that replaces each of them.

    Each sum belongs to the reduction that writes it, by number.
    """

    def __init__(self) -> None:
        self.doubles: dict[TvmBuffer, TvmBuffer] = {}
        self._reduction: dict[TvmBuffer, int] = {}
        self._bound: dict[Var, tuple[Var, int]] = {}

    def add(self, block: SBlock) -> None:
        """Looks at a block: if it is an additive reduction, what it writes and binds becomes float64."""
        written = _written(block)
        if block.init is None or not _adds_to(block.body, written):
            return
        number = len(self.doubles)
        for buffer in written:
            self.doubles.setdefault(buffer, tirx.decl_buffer(list(buffer.shape), _DOUBLE, buffer.name))
            self._reduction.setdefault(buffer, number)

        def bind(node: Stmt) -> None:
            if str(node.var.ty) in _NARROW and _reads(node.value, written):
                self._bound[node.var] = (tirx.Var(node.var.name, _DOUBLE), number)

        tvm_ffi.structural_walk(block.body, (tirx.Bind, bind))

    def store(self, node: BufferStore) -> BufferStore:
        """A store to a sum: writes to its float64 buffer, without rounding between one sum and the next."""
        double = self.doubles.get(node.buffer)
        if double is None:
            return node
        value = self._double(node.value, self._reduction[node.buffer])
        return tirx.BufferStore(double, value, list(node.indices))

    def bind(self, node: Stmt) -> Stmt:
        """A name for the next value of a sum: becomes float64 as well."""
        if node.var not in self._bound:
            return node
        variable, number = self._bound[node.var]
        return tirx.Bind(variable, self._double(node.value, number))

    def load(self, node: BufferLoad) -> Expr:
        """A sum that other code reads: rounded to its own type."""
        double = self.doubles.get(node.source)
        return node if double is None else tirx.Cast(str(node.ty), tirx.BufferLoad(double, list(node.indices)))

    def variable(self, node: Var) -> Expr:
        """A buffer's name in a block's list of reads and writes, or the name of a bound value."""
        if node in self._bound:
            return tirx.Cast(str(node.ty), self._bound[node][0])
        return self.doubles.get(node, node)

    def _double(self, value: Expr, reduction: int) -> Expr:
        """`value` as float64, in which sums of `reduction` enter without rounding."""
        if isinstance(value, ir.TensorLoad) and self._reduction.get(value.source) == reduction:
            return tirx.BufferLoad(self.doubles[value.source], list(value.indices))
        if isinstance(value, ir.Var) and self._bound.get(value, (None, None))[1] == reduction:
            return self._bound[value][0]
        if self._enters(value, reduction):
            if isinstance(value, _ARITHMETIC):
                return type(value)(self._double(value.a, reduction), self._double(value.b, reduction))
            if isinstance(value, tirx.Select):
                values = (self._double(choice, reduction) for choice in (value.true_value, value.false_value))
                return tirx.Select(value.condition, *values)
            if isinstance(value, tirx.Cast) and str(value.value.ty) in _NARROW:
                return self._double(value.value, reduction)
        return tirx.Cast(_DOUBLE, value)

    def _enters(self, value: Expr, reduction: int) -> bool:
        sums = [buffer for buffer, number in self._reduction.items() if number == reduction]
        names = [variable for variable, (_, number) in self._bound.items() if number == reduction]
        return _reads(value, [*sums, *names])


def _written(block: SBlock) -> list[TvmBuffer]:
    found: list[TvmBuffer] = []
    tvm_ffi.structural_walk(block.body, (tirx.BufferStore, lambda store: found.append(store.buffer)))
    return [buffer for buffer in found if str(buffer.dtype) in _NARROW]


def _adds_to(body: Stmt, buffers: Sequence[TvmBuffer]) -> bool:
    found: list[bool] = []
    tvm_ffi.structural_walk(body, (_SUMS, lambda node: found.append(_reads(node, buffers))))
    return any(found)


def _reads(node: Node, variables: Sequence[Var]) -> bool:
    found: list[Var] = []
    tvm_ffi.structural_walk(node, (ir.Var, found.append))
    return any(read.same_as(variable) for read in found for variable in variables)
