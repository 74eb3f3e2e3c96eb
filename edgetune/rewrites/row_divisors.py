"""Row divisors: elements that share a divisor are multiplied by one over it, which is divided once.

A vector division takes as long as five to ten multiplications. Rounding twice costs an element 1 ULP at most. That
holds where the reciprocal neither overflows nor loses bits:

- for a square root, which is at least 2^-75 and at most 2^64;
- for any other divisor after both sides were multiplied by a power of two, 2^64 for tiny divisors and 2^-64 for huge
  ones. A product that then overflows, or loses bits, belongs to a quotient that does.

Zeros, infinities and NaN give the same in both.
"""

from __future__ import annotations

from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import expressions, mentions, with_places
from edgetune.codegen.intrinsics import operator
from edgetune.graph.element_type import is_floating, type_of
from edgetune.graph.reduction_stage import ReductionStage, buffer_of, variable
from edgetune.rewrites.stored_values import (
    StoredValue,
    axes_of,
    is_plain,
    kept,
    loading,
    statements_in,
    stored_value,
    unused_name,
    with_statements,
)
from edgetune.schedule.sketches.block_analysis import block_of, extent_of
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import BufferLoad, Expr, PrimFunc, SBlock, Stmt

_ROOTS = frozenset(("sqrt", "rsqrt"))
_FAR = 64
"""The exponent from which on a divisor counts as tiny or huge."""


def with_row_divisors(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, that multiplies where several elements are divided by one number."""
    before = statements_in(function)
    names = {str(block_of(statement).name_hint) for statement in before}
    statements: list[Stmt] = []
    stored: list[StoredValue] = []
    for statement in before:
        changes, made = _changes(block_of(statement), names)
        changed = loading(statement, changes) if changes else statement
        statements += [*(kept(one.stage.statement()) for one in made), changed]
        stored += made
    same = all(any(one.same_as(other) for other in before) for one in statements)
    return function if same else with_statements(function, statements, stored)


def _changes(block: SBlock, names: set[str]) -> tuple[list[tuple[Expr, Expr]], list[StoredValue]]:
    """The divisions of a block, each with its product, and the divisors that are stored, with what belongs to them."""
    found: list[Expr] = []
    tvm_ffi.structural_walk(block.body, (tirx.Div, found.append))
    changes: list[tuple[Expr, Expr]] = [
        (node, node.a * (tirx.const(1.0, type_of(node.b)) / node.b))
        for node in found
        if _is_root(node.b) and _uses(node.b, block) >= MARGINS.uses_of_divisor
    ]
    if changes:
        return changes, []
    least = MARGINS.uses_of_scaled_divisor
    shared = [one for one in found if _can_be_stored(one.b, block) and _uses(one.b, block) >= least]
    if len(shared) != 1:
        return [], []
    (node,) = shared
    divisor = stored_value(node.b, block, _name(block, "divisor", names))
    power = _beside(divisor, _power(_own(divisor)), _name(block, "power", names))
    value = tirx.const(1.0, type_of(node.b)) / (_own(divisor) * _own(power, divisor))
    reciprocal = _beside(divisor, value, _name(block, "reciprocal", names))
    return [(node, (node.a * power.load()) * reciprocal.load())], [divisor, power, reciprocal]


def _name(block: SBlock, word: str, names: set[str]) -> str:
    name = unused_name(f"{block.name_hint}_{word}", names)
    names.add(name)
    return name


def _own(stored: StoredValue, other: StoredValue | None = None) -> BufferLoad:
    """What is stored, at the places of its own stage, or of that of another one."""
    return tirx.BufferLoad(stored.stage.out, (other or stored).stage.at)


def _beside(divisor: StoredValue, value: Expr, name: str) -> StoredValue:
    """A value for each divisor; `value` is that at the places of its stage."""
    axes = divisor.stage.spatial
    renamed = {one: variable(str(one.name), str(one.ty.dtype)) for one, _ in axes}
    own = tuple((renamed[one], extent) for one, extent in axes)
    at = tuple(one for one, _ in own)
    out = buffer_of(name, own, type_of(value))
    return StoredValue(divisor.axes, ReductionStage(name, out, at, own, (), with_places(value, renamed)))


def _is_root(value: Expr) -> bool:
    return isinstance(value, ir.Call) and operator(value) in _ROOTS and is_floating(value)


def _can_be_stored(value: Expr, block: SBlock) -> bool:
    """Whether a float depends on axes of a block and is computed without functions, so that it is cheap."""
    nodes = list(expressions(value))
    cheap = (ir.TensorLoad, tirx.FloatImm, tirx.Add, tirx.Sub, tirx.Mul, tirx.Div)
    loads = [node for node in nodes if isinstance(node, ir.TensorLoad)]
    return (
        is_floating(value)
        and all(isinstance(node, cheap) for node in nodes if is_floating(node))
        and all(is_plain(load, block) for load in loads)
        and len(axes_of(value, block)) > 0
    )


def _power(divisor: Expr) -> Expr:
    """A power of two with which a divisor is neither tiny nor huge."""
    dtype = type_of(divisor)
    tiny, huge = (tirx.const(2.0**exponent, dtype) for exponent in (-_FAR, _FAR))
    size = tirx.abs(divisor)
    return tirx.Select(size < tiny, huge, tirx.Select(size > huge, tiny, tirx.const(1.0, dtype)))


def _uses(divisor: Expr, block: SBlock) -> int:
    """The elements that share a divisor."""
    return prod(extent_of(axis) for axis in block.iter_vars if not mentions(divisor, axis.var))
