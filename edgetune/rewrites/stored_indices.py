"""Stored indices: computed indices of a gather are stored once.

In `table[int(floor(abs(id[b, k]) * 256)) % n, d]`, a loop over d would compute the row for each element again, one by
one, for no vector reads at several places. The row becomes a stage of integers over the axes that it depends on,
computed in vectors. So do numbers that are compared with an axis, as bins of a histogram. Weights of several places, as
in an image that a flow moves, become a stage of floats. What follows are loads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import prod

from tvm import ir, tirx

from edgetune.affine.access import Access
from edgetune.affine.domain import Domain, starts_at_zero
from edgetune.affine.expressions import expressions, is_among, loads_in
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.stored_values import (
    StoredValue,
    axes_of,
    kept,
    loading,
    statements_in,
    stored_over,
    unused_name,
    with_statements,
)
from edgetune.schedule.sketches.block_analysis import block_of, extent_of
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import Expr, PrimFunc, SBlock, Stmt

_MOST_NODES = 2000
_MOST_ELEMENTS = 1 << 20
_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max, ir.Call)


def with_stored_indices(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, with one more stage for each number that is computed in floating point."""
    before = statements_in(function)
    statements: list[Stmt] = []
    stored: list[StoredValue] = []
    names = {str(block_of(statement).name_hint) for statement in before}
    for statement in before:
        made: list[StoredValue] = []
        loads: list[tuple[Expr, Expr]] = []
        block = block_of(statement)
        for value in _values(block):
            kind = "place" if "int" in str(value.ty.dtype) else "weight"
            one = stored_over(value, axes_of(value, block), unused_name(f"{block.name_hint!s}_{kind}", names))
            known = next((other for other in (*stored, *made) if one.computes_same(other)), None)
            if known is None:
                made.append(one)
                names.add(one.stage.name)
            loads.append((value, replace(one, stage=(known or one).stage).load()))
        statements += [kept(one.stage.statement()) for one in made]
        statements.append(loading(statement, loads) if loads else statement)
        stored += made
    return with_statements(function, statements, stored) if stored else function


def _values(block: SBlock) -> list[Expr]:
    """The places of a stage that are worth a stage of their own, and the weights beside them."""
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not all(starts_at_zero(axis) for axis in block.iter_vars):
        return []
    if sum(1 for _ in islice(expressions(store.value), _MOST_NODES + 1)) > _MOST_NODES:
        return []
    places = list(_places(store.value, block, gathers=False))
    gathers = any(_is_gather(node) for node in expressions(store.value))
    return [*places, *_weights(store.value, block)] if places and gathers else places


def _places(value: Expr, block: SBlock, *, gathers: bool) -> Iterator[Expr]:
    """The numbers in a value that are computed in floating point; `gathers`: it is a place from which is read."""
    if str(value.ty.dtype) == "int32" and _is_number(value) and _is_inside(value, block):
        number = _without_offset(value)
        uses = _uses(number, block)
        if uses and (gathers or uses > 1):
            yield number
            return
    for part in _parts(value):
        yield from _places(part, block, gathers=gathers or isinstance(value, ir.TensorLoad))


def _weights(value: Expr, block: SBlock) -> Iterator[Expr]:
    """The parts of a value that fewer axes than those of the stage compute, with several operations."""
    if is_floating(value) and isinstance(value, _ARITHMETIC) and _is_inside(value, block):
        weight = _without_offset(value)
        nodes = list(expressions(weight))
        operations = sum(isinstance(node, _ARITHMETIC) for node in nodes)
        plain = not any(_is_gather(node) for node in nodes)
        if plain and operations >= MARGINS.operations_of_weight and _uses(weight, block) > 1:
            yield weight
            return
    if not isinstance(value, ir.TensorLoad):
        for part in _parts(value):
            yield from _weights(part, block)


def _parts(value: Expr) -> Sequence[Expr]:
    if isinstance(value, ir.TensorLoad):
        return list(value.indices)
    if isinstance(value, ir.Call):
        return [part for part in value.args if isinstance(part, ir.Expr)]
    if isinstance(value, tirx.Select):
        return [value.condition, value.true_value, value.false_value]
    if isinstance(value, tirx.Cast):
        return [value.value]
    return [part for part in (getattr(value, name, None) for name in "ab") if isinstance(part, ir.Expr)]


def _is_number(value: Expr) -> bool:
    """Whether an integer is computed in floating point from an element of a tensor."""
    return any(isinstance(node, tirx.Cast) and is_floating(node.value) and _loads(node) for node in expressions(value))


def _is_gather(node: Expr) -> bool:
    return isinstance(node, ir.TensorLoad) and any(_loads(index) for index in node.indices)


def _loads(value: Expr) -> bool:
    return any(isinstance(node, ir.TensorLoad) for node in expressions(value))


def _without_offset(value: Expr) -> Expr:
    """A value before a constant is added to it, or it is subtracted from one: neighbours share it."""
    constants = (tirx.IntImm, tirx.FloatImm)
    while isinstance(value, (tirx.Add, tirx.Sub)) and isinstance(value.b, constants) != isinstance(value.a, constants):
        value = value.a if isinstance(value.b, constants) else value.b
    return value


def _uses(value: Expr, block: SBlock) -> int:
    """The results and terms of a stage for each of the elements of a value; 0 where these are too many or too few."""
    own = axes_of(value, block)
    elements = prod(extent_of(axis) for axis in own)
    return prod(extent_of(axis) for axis in block.iter_vars) // elements if own and elements <= _MOST_ELEMENTS else 0


def _is_inside(value: Expr, block: SBlock) -> bool:
    """Whether a value reads inside its tensors at all places, also where a condition around it does not hold."""
    domain, written = Domain.of_block(block.iter_vars), [region.source for region in block.writes]
    return all(not is_among(load.source, written) and Access.of(load, domain).is_inside() for load in loads_in([value]))
