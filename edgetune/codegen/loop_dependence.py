"""Loop dependence test: finds loops whose iterations never touch an element that another iteration writes.

Such loops are independent. The test reads only indices, so it holds for any origin of the loop. Every flat index into a
written buffer must be

    high + c * v + low        with 0 <= low < c, and v * c + low below every step of high

for the loop variable v: then v is one digit of the index, and two iterations differ in it. Reductions fail (v is not in
the index), and so do scans (they read what another iteration wrote) and overlapping tiles. Conditions around an access
bound its terms: if tiles do not divide an axis, the last tile ends where the axis ends. A part of an index that is not
linear, such as the minimum that makes the last tile overlap the one before it, counts as a separate variable with its
own range; loops whose variables occur in such a part are not independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

from tvm import ir, tirx

from edgetune.affine.domain import Domain
from edgetune.affine.expressions import operands
from edgetune.affine.linear import Linear, linear
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.intrinsics import operator
from edgetune.codegen.traverse import children, expressions
from edgetune.codegen.unrolling import extent_of
from edgetune.tvm_types import Expr, For, Stmt, TvmBuffer, Var

_FAR = 1 << 31  # above every index
_KNOWN = (tirx.SeqStmt, tirx.IfThenElse, tirx.For, tirx.BufferStore, tirx.AllocBuffer, tirx.Evaluate, tirx.AttrStmt)


@dataclass(frozen=True, eq=False)
class _Term:
    """A part of an index that is not linear in the loop variables `inside` it."""

    inside: tuple[Var, ...]

    def same_as(self, other: object) -> bool:
        return self is other


@dataclass(frozen=True)
class _Access:
    """One access: its index (None if unknown), and linear forms that are at most 0 whenever it happens."""

    index: Linear | None
    bounds: tuple[Linear, ...] = ()

    def factor(self, v: Var) -> int:
        return self.index.factors.get(v, 0) if self.index and not self._hides(v) else 0

    def uses(self, v: Var) -> bool:
        return self.factor(v) != 0 or self._hides(v)

    def _hides(self, v: Var) -> bool:
        terms = self.index.factors if self.index else ()
        return any(isinstance(term, _Term) and any(v.same_as(one) for one in term.inside) for term in terms)


@dataclass
class Accesses:
    """A nest's accesses to memory outside it. `opaque` means that the nest contains something not understood."""

    extents: dict[Var, int] = field(default_factory=dict)
    inside: set[TvmBuffer] = field(default_factory=set)
    indices: dict[TvmBuffer, list[_Access]] = field(default_factory=dict)
    written: set[TvmBuffer] = field(default_factory=set)
    opaque: bool = False
    bounds: tuple[Linear, ...] = ()

    def uses(self, buffer: TvmBuffer, v: Var) -> bool:
        """Whether `v` decides which elements of `buffer` are accessed."""
        return all(access.uses(v) for access in self.indices[buffer])

    def new_term(self, e: Expr) -> _Term | None:
        """A stand-in for `e`, which is not linear, in an index, with its range; None if the range is unknown."""
        variables = _variables(e)
        if not all(variable in self.extents for variable in variables):
            return None
        least, most = Domain.of((variable, self.extents[variable]) for variable in variables).bounds(e)
        if least < 0 or most >= _FAR:
            return None
        term = _Term(tuple(variables))
        self.extents[term] = most + 1
        return term

    def outside(self) -> list[TvmBuffer]:
        """The accessed buffers that are not local to the nest."""
        return [buffer for buffer in self.indices if buffer not in self.inside]

    def outermost(self, loops: list[For]) -> For:
        """The loop with the longest step through the buffers that are written outside the nest."""
        written = [access for buffer in self.outside() if buffer in self.written for access in self.indices[buffer]]
        return max(loops, key=lambda loop: max(access.factor(loop.loop_var) for access in written))


def accesses_of(nest: Stmt, alias: dict[TvmBuffer, TvmBuffer]) -> Accesses:
    """The accesses of `nest`, which is flat TIR (one index per access) before vectorisation.

    `alias` maps a buffer to the buffer whose memory it views.
    """
    found = Accesses()
    _statement(nest, found, alias)
    return found


def independent_loops(found: Accesses, loops: list[For]) -> list[For]:
    """The first run of adjacent independent loops; `loops` are the perfectly nested outermost loops of a nest.

    Loops around them do not matter: an element is always written in the same iterations of the independent loops. A
    loop that is parallel as it was written (see `edgetune.graph.written_loops`) is independent whatever it does.
    """
    independent = [
        int(loop.kind) == int(tirx.ForKind.PARALLEL) or (not found.opaque and _is_independent(found, loop.loop_var))
        for loop in loops
    ]
    first = independent.index(True) if True in independent else len(loops)
    last = independent.index(False, first) if False in independent[first:] else len(loops)
    return loops[first:last]


def _is_independent(found: Accesses, v: Var) -> bool:
    outside = [buffer for buffer in found.written if buffer not in found.inside]
    return all(_is_digit(found.indices[buffer], v, found.extents) for buffer in outside)


def _is_digit(accesses: list[_Access], v: Var, extents: dict[Var, int]) -> bool:
    """Whether the indices of all `accesses` to one buffer contain `v` as the same digit."""
    steps: set[int] = set()
    step_above = 0  # greatest common divisor of all higher terms; 0 if there are none
    for access in accesses:
        step = access.factor(v)
        if access.index is None or step <= 0:
            return False
        steps.add(step)
        others = {u: f for u, f in access.index.factors.items() if not u.same_as(v)}
        step_above = gcd(step_above, *(f for f in others.values() if abs(f) >= step))
    if len(steps) != 1:
        return False
    step = steps.pop()
    for access in accesses:
        assert access.index is not None  # noqa: S101 (the loop above returned)
        lower = {u: f for u, f in access.index.factors.items() if not u.same_as(v) and abs(f) < step}
        start = access.index.constant % step_above if step_above else access.index.constant
        least = start + sum(min(0, f * (extents[u] - 1)) for u, f in lower.items())
        if least < 0 or start + _greatest(lower, access.bounds, extents) >= step:
            return False
        if step_above and start + _greatest({v: step, **lower}, access.bounds, extents) >= step_above:
            return False
    return True


def _greatest(factors: dict[Var, int], bounds: tuple[Linear, ...], extents: dict[Var, int]) -> int:
    """Upper bound of the sum of factor * variable when all `bounds` hold.

    A bound applies if the sum contains its terms, all multiplied by the same positive number.
    """
    rest = dict(factors)
    total = 0
    for bound in bounds:
        times = {divmod(rest.get(u, 0), f) for u, f in bound.factors.items()}
        if len(times) != 1 or not all(u in rest for u in bound.factors):
            continue
        times_of_it, remainder = times.pop()
        if times_of_it > 0 and remainder == 0:
            total += times_of_it * min(-bound.constant, _most(bound.factors, extents))
            rest = {u: f for u, f in rest.items() if u not in bound.factors}
    return total + _most(rest, extents)


def _most(factors: dict[Var, int], extents: dict[Var, int]) -> int:
    return sum(max(0, f * (extents[u] - 1)) for u, f in factors.items())


def _statement(node: Stmt, found: Accesses, alias: dict[TvmBuffer, TvmBuffer]) -> None:
    if not isinstance(node, _KNOWN):
        found.opaque = True  # its accesses are recorded anyway
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
    around = found.bounds
    for child in children(node):
        if isinstance(node, tirx.IfThenElse) and child.same_as(node.then_case):
            found.bounds = (*around, *_bounds(node.condition, found.extents))
        _statement(child, found, alias)
        found.bounds = around


def _expression(node: Expr, found: Accesses, alias: dict[TvmBuffer, TvmBuffer]) -> None:
    if isinstance(node, ir.TensorLoad):
        _access(node.source, node.indices, found, alias)
        return
    if isinstance(node, ir.Var) and node not in found.extents:
        found.opaque = True  # a buffer that is passed on, or a value that is not defined here
    for operand in operands(node):
        _expression(operand, found, alias)


def _access(
    buffer: TvmBuffer,
    indices: Sequence[Expr],
    found: Accesses,
    alias: dict[TvmBuffer, TvmBuffer],
    *,
    writes: bool = False,
) -> None:
    base: TvmBuffer = alias.get(buffer, buffer)
    same = element_and_lanes(base.ty.dtype) == element_and_lanes(buffer.ty.dtype)
    index = linear(indices[0], found.extents, found.new_term) if len(indices) == 1 and same else None
    found.indices.setdefault(base, []).append(_Access(index, found.bounds))
    if writes:
        found.written.add(base)
    for part in indices:
        _expression(part, found, alias)


def _variables(e: Expr) -> list[Var]:
    if isinstance(e, ir.Var):
        return [e]
    return [variable for operand in operands(e) for variable in _variables(operand)]


def _bounds(condition: Expr, known: dict[Var, int]) -> list[Linear]:
    """Linear forms of loop variables that are at most 0 when `condition` holds; other parts of it are ignored."""
    if isinstance(condition, ir.Call) and operator(condition) == "likely":
        return _bounds(condition.args[0], known)
    if isinstance(condition, tirx.And):
        return [*_bounds(condition.a, known), *_bounds(condition.b, known)]
    if not isinstance(condition, (tirx.LT, tirx.LE, tirx.GT, tirx.GE)):
        return []
    a, b = linear(condition.a, known), linear(condition.b, known)
    if a is None or b is None:
        return []
    form = a.plus(b, -1) if isinstance(condition, (tirx.LT, tirx.LE)) else b.plus(a, -1)
    return [form.plus(Linear(1, {})) if isinstance(condition, (tirx.LT, tirx.GT)) else form]
