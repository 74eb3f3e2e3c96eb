"""Which loops write apart: two iterations of such a loop never touch the same element that either of them writes.

The test reads indices alone, so it holds whatever made the loop. Every index into a written buffer, flat, must be

    high + c * v + low        with 0 <= low < c, and v * c + low below every step of high

for the loop variable v: then v is one digit of the index, and two iterations differ in it. Reductions fail (v is not in
the index), as do scans (they read what another iteration wrote) and overlapping tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Any

from tvm import ir, tirx

from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.traverse import children, expressions, operands
from edgetune.codegen.unrolling import extent_of

_KNOWN = (tirx.SeqStmt, tirx.IfThenElse, tirx.For, tirx.BufferStore, tirx.AllocBuffer, tirx.Evaluate, tirx.AttrStmt)


@dataclass(frozen=True)
class _Linear:
    """constant + sum of factor * variable."""

    constant: int
    factors: dict[Any, int]

    def plus(self, other: _Linear, sign: int = 1) -> _Linear:
        factors = dict(self.factors)
        for variable, factor in other.factors.items():
            factors[variable] = factors.get(variable, 0) + sign * factor
        return _Linear(self.constant + sign * other.constant, {v: f for v, f in factors.items() if f})

    def times(self, factor: int) -> _Linear:
        return _Linear(self.constant * factor, {v: f * factor for v, f in self.factors.items() if f * factor})


@dataclass
class Accesses:
    """What a nest does to memory that lives outside it. `opaque` says that it does something not understood."""

    extents: dict[Any, int] = field(default_factory=dict)
    inside: set[Any] = field(default_factory=set)
    indices: dict[Any, list[_Linear | None]] = field(default_factory=dict)
    written: set[Any] = field(default_factory=set)
    opaque: bool = False

    def uses(self, buffer: Any, v: Any) -> bool:
        """Whether `v` decides which elements of `buffer` are touched."""
        return all(index is not None and v in index.factors for index in self.indices[buffer])

    def outside(self) -> list[Any]:
        """The buffers touched that are not the nest's own."""
        return [buffer for buffer in self.indices if buffer not in self.inside]

    def outermost(self, loops: list[Any]) -> Any:
        """The loop with the longest step through what is written outside the nest."""
        written = [index for buffer in self.outside() if buffer in self.written for index in self.indices[buffer]]
        return max(loops, key=lambda loop: max(i.factors.get(loop.loop_var, 0) if i else 0 for i in written))


def accesses_of(nest: Any, alias: dict[Any, Any]) -> Accesses:
    """What `nest` does: flat TIR (one index an access) before vectorisation.

    `alias` maps a buffer to the one whose memory it is.
    """
    found = Accesses()
    _statement(nest, found, alias)
    return found


def writes_apart(found: Accesses, loops: list[Any]) -> int:
    """How many of `loops`, from the first on, write apart; they are the outermost ones of a nest, each in the other."""
    count = 0
    while not found.opaque and count < len(loops) and _apart(found, loops[count].loop_var):
        count += 1
    return count


def _apart(found: Accesses, v: Any) -> bool:
    outside = [buffer for buffer in found.written if buffer not in found.inside]
    return all(_is_digit(found.indices[buffer], v, found.extents) for buffer in outside)


def _is_digit(indices: list[_Linear | None], v: Any, extents: dict[Any, int]) -> bool:
    """Whether all `indices` into one buffer hold `v` as the same digit."""
    steps: set[int] = set()
    step_above = 0  # what all higher terms are multiples of; 0: there are none
    for index in indices:
        if index is None or v not in index.factors:
            return False
        step = index.factors[v]
        steps.add(step)
        step_above = gcd(step_above, *(f for u, f in index.factors.items() if not u.same_as(v) and abs(f) >= step))
    if len(steps) != 1:
        return False
    step = steps.pop()
    if step <= 0:
        return False
    for index in indices:
        assert index is not None  # noqa: S101 (the loop above returned)
        lower = [(f, extents[u]) for u, f in index.factors.items() if not u.same_as(v) and abs(f) < step]
        start = index.constant % step_above if step_above else index.constant
        least = start + sum(min(0, f * (extent - 1)) for f, extent in lower)
        most = start + sum(max(0, f * (extent - 1)) for f, extent in lower)
        if least < 0 or most >= step or (step_above and step * (extents[v] - 1) + most >= step_above):
            return False
    return True


def _statement(node: Any, found: Accesses, alias: dict[Any, Any]) -> None:
    if not isinstance(node, _KNOWN):
        found.opaque = True  # what it touches is noted all the same
    if isinstance(node, tirx.AllocBuffer):
        found.inside.add(node.buffer)
    elif isinstance(node, tirx.For):
        extent = extent_of(node)
        if extent is None or not isinstance(node.min, tirx.IntImm) or int(node.min.value) or node.step is not None:
            found.opaque = True
        else:
            found.extents[node.loop_var] = extent
    elif isinstance(node, tirx.BufferStore):
        _access(node.buffer, node.indices, found, alias, writes=True)
    for expression in expressions(node):
        _expression(expression, found, alias)
    for child in children(node):
        _statement(child, found, alias)


def _expression(node: Any, found: Accesses, alias: dict[Any, Any]) -> None:
    if isinstance(node, ir.TensorLoad):
        _access(node.source, node.indices, found, alias)
        return
    if isinstance(node, ir.Var) and node not in found.extents:
        found.opaque = True  # a buffer handed on, or a value that nothing here defines
    for operand in operands(node):
        _expression(operand, found, alias)


def _access(buffer: Any, indices: Any, found: Accesses, alias: dict[Any, Any], *, writes: bool = False) -> None:
    base = alias.get(buffer, buffer)
    same = element_and_lanes(base.ty.dtype) == element_and_lanes(buffer.ty.dtype)
    index = _linear(indices[0], found.extents) if len(indices) == 1 and same else None
    found.indices.setdefault(base, []).append(index)
    if writes:
        found.written.add(base)
    for part in indices:
        _expression(part, found, alias)


def _linear(e: Any, known: dict[Any, int]) -> _Linear | None:
    """`e` as a linear form of loop variables, None where it is not one."""
    if isinstance(e, tirx.IntImm):
        return _Linear(int(e.value), {})
    if isinstance(e, ir.Var):
        return _Linear(0, {e: 1}) if e in known else None
    if isinstance(e, (tirx.Add, tirx.Sub, tirx.Mul)):
        a, b = _linear(e.a, known), _linear(e.b, known)
        if a is None or b is None:
            return None
        if not isinstance(e, tirx.Mul):
            return a.plus(b, 1 if isinstance(e, tirx.Add) else -1)
        if not b.factors:
            return a.times(b.constant)
        return b.times(a.constant) if not a.factors else None
    return None
