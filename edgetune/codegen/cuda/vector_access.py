"""Loops whose adjacent elements one thread can read or write at once: contiguous, and aligned to the whole vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, sym, tirx

from edgetune.affine.domain import simplified
from edgetune.affine.expressions import is_one, operands, variables_in
from edgetune.codegen.cuda.tidy import LOCAL
from edgetune.codegen.dtypes import Element, element_and_lanes
from edgetune.codegen.intrinsics import operator
from edgetune.tvm_types import BufferLoad, Expr, Stmt, TvmBuffer, Var

VECTOR_BYTES = 16
"""The widest access of one thread (CUDA C++ Programming Guide, "Device Memory Accesses")."""

_MOST = 16  # elements of a loop that is printed as vectors


@dataclass(frozen=True)
class VectorAccess:
    """The elements of `buffer` that a loop touches: adjacent, from `first` on, in vectors of `lanes`."""

    buffer: TvmBuffer
    index: Expr
    first: Expr
    lanes: int


@dataclass(frozen=True)
class VectorLoop:
    """A loop of `count` steps over one `store`; the constants in front of it stand where they are used."""

    variable: Var
    count: int
    store: Stmt

    @classmethod
    def of(cls, node: Stmt) -> VectorLoop | None:
        """The loop, if it is one; None for any other."""
        steps = [node.body] if not isinstance(node.body, tirx.SeqStmt) else list(node.body.seq)
        *bound, store = steps
        whole = isinstance(node.extent, tirx.IntImm) and isinstance(node.min, tirx.IntImm) and int(node.min.value) == 0
        if not whole or not isinstance(store, tirx.BufferStore) or not all(isinstance(b, tirx.Bind) for b in bound):
            return None
        if not 1 < int(node.extent.value) <= _MOST or element_and_lanes(store.value.ty)[1] > 1:
            return None
        for one in reversed(bound):
            store = _replaced(store, one.var, one.value)
        return cls(node.loop_var, int(node.extent.value), store)

    def regrouped(self, bounds: sym.Analyzer) -> VectorLoop:
        """The loop with remainders and quotients of whole groups of its steps: (8 a + i) % 24 is 8 a % 24 + i."""

        def regroup(node: Expr) -> Expr:
            parts = sym.detect_linear_equation(node.a, [self.variable])
            if not isinstance(node.b, tirx.IntImm) or not parts or not is_one(parts[0]):
                return node
            known = bounds.modular_set(parts[1])
            if any(int(number) % self.count for number in (node.b.value, known.coeff, known.base)):
                return node
            return parts[1] // node.b if isinstance(node, tirx.FloorDiv) else parts[1] % node.b + self.variable

        callbacks = [(tirx.FloorMod, regroup), (tirx.FloorDiv, regroup)]
        return VectorLoop(self.variable, self.count, tvm_ffi.structural_map(self.store, callbacks, order="post"))


@dataclass(frozen=True)
class VectorFinder:
    """Finds vectors in a loop; `aligned` tells of a buffer whether its first element is aligned to VECTOR_BYTES."""

    analyzer: sym.Analyzer
    aligned: Callable[[TvmBuffer], bool]

    def stored(self, loop: VectorLoop) -> VectorAccess | None:
        """What the loop writes, if it is vectors."""
        return self._access(loop, loop.store.buffer, list(loop.store.indices))

    def loaded(self, loop: VectorLoop) -> list[VectorAccess]:
        """What the loop reads as vectors in every step, each once."""
        found: list[VectorAccess] = []
        for load in _certain_loads(loop.store.value):
            access = self._access(loop, load.source, list(load.indices))
            known = any(one.buffer == load.source and same(one.index, load.indices[0]) for one in found)
            if access is not None and not known and load.source != loop.store.buffer:
                found.append(access)
        return found

    def copied(self, loop: VectorLoop) -> tuple[Expr | None, VectorAccess] | None:
        """What the loop copies as vectors, and the condition under which it does: elsewhere it writes zeroes."""
        condition, value = guarded_value(loop.store.value)
        if not isinstance(value, ir.TensorLoad) or value.source == loop.store.buffer:
            return None
        used: set[Var] = set()
        variables_in([] if condition is None else [condition], used)
        access = self._access(loop, value.source, list(value.indices))
        return None if access is None or loop.variable in used else (condition, access)

    def _access(self, loop: VectorLoop, buffer: TvmBuffer, indices: list[Expr]) -> VectorAccess | None:
        of, lanes = element_and_lanes(buffer.ty.dtype)
        if str(buffer.scope()) == LOCAL or len(indices) != 1 or lanes > 1 or not self.aligned(buffer):
            return None
        parts = sym.detect_linear_equation(indices[0], [loop.variable])
        if not parts or not is_one(parts[0]):
            return None
        known = self.analyzer.modular_set(parts[1])
        width = VECTOR_BYTES // of.bytes
        while width > 1:
            if loop.count % width == 0 and int(known.coeff) % width == 0 and int(known.base) % width == 0:
                return VectorAccess(buffer, indices[0], simplified(parts[1]), width)
            width //= 2
        return None


def guarded_value(value: Expr) -> tuple[Expr | None, Expr]:
    """The condition under which a value is not zero, None where there is none, and what it is then."""
    if isinstance(value, ir.Call) and operator(value) == "if_then_else" and _is_zero(value.args[2]):
        return value.args[0], value.args[1]
    if isinstance(value, tirx.Select) and _is_zero(value.false_value):
        return value.condition, value.true_value
    return None, value


def vector_type(of: Element, lanes: int) -> str:
    """CUDA's type of `lanes` elements in memory: of floats, or else of as many bytes."""
    if of.short == "f32":
        return f"float{lanes}"
    return {16: "uint4", 8: "uint2", 4: "uint1", 2: "ushort1"}[lanes * of.bytes]


def same(a: Expr, b: Expr) -> bool:
    """Whether two expressions are the same."""
    return bool(tvm_ffi.structural_equal(a, b))


def _replaced(store: Stmt, variable: Var, value: Expr) -> Stmt:
    return tvm_ffi.structural_map(store, (ir.Var, lambda one: value if one.same_as(variable) else one))


def _is_zero(e: Expr) -> bool:
    return isinstance(e, tirx.FloatImm) and float(e.value) == 0


def _certain_loads(e: Expr) -> Iterator[BufferLoad]:
    """The loads of an expression but those under a condition."""
    if isinstance(e, ir.TensorLoad):
        yield e
        return
    inside = operands(e)
    if isinstance(e, tirx.Select) or (isinstance(e, ir.Call) and operator(e) == "if_then_else"):
        inside = inside[:1]
    for one in inside:
        yield from _certain_loads(one)
