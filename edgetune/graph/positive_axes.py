"""Positive axes: attributes that count an axis from the end are made to count it from the start.

TVM 0.27 takes negative axes in most operators, but not all of its passes do: ConvertLayout reads outside of a layout
for the axis of a Squeeze, and ends in `std::bad_alloc`. So no pass of TVM sees one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import tvm
from tvm import relax
from tvm.ir.attrs import make_node
from tvm.relax.expr_functor import PyExprMutator, mutator

Axes: TypeAlias = int | Sequence[int] | None

_OF_THE_RESULT = frozenset({"relax.expand_dims", "relax.stack", "relax.one_hot"})
"""Operators whose axes are those of their result; those of others are axes of their first operand."""


def positive_axes(module: tvm.IRModule) -> tvm.IRModule:
    """Returns `module`, in whose `main` no attribute that names axes is negative."""
    mutated = _CountFromTheStart(module)
    function = mutated.visit_expr(module["main"])
    updated = mutated.builder_.get()
    updated["main"] = function
    return updated


@mutator
class _CountFromTheStart(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        visited = super().visit_call_(call)
        rank = _rank(call)
        if rank is None or visited.attrs is None:
            return visited
        kind = type(visited.attrs).__tvm_ffi_type_info__
        fields = {field.name: getattr(visited.attrs, field.name) for field in kind.fields}
        negative = {
            name: _positive(value, rank) for name, value in fields.items() if _names_axes(name) and _is_negative(value)
        }
        if not negative:
            return visited
        attrs = make_node(kind.type_key, **fields | negative)
        return relax.Call(visited.op, visited.args, attrs, visited.ty_args, visited.span)


def _rank(call: relax.Call) -> int | None:
    """Returns the number of axes that the attributes of an operator count, where it is known."""
    if not isinstance(call.op, tvm.ir.Op) or not call.args:
        return None
    counted = call if call.op.name in _OF_THE_RESULT else call.args[0]
    while isinstance(counted, relax.Tuple):
        counted = counted.fields[0]
    of = counted.ty
    while isinstance(of, relax.TupleType) and of.fields:
        of = of.fields[0]
    return int(of.ndim) if isinstance(of, relax.TensorType) and int(of.ndim) >= 0 else None


def _names_axes(attribute: str) -> bool:
    return attribute in {"axis", "axes"} or attribute.endswith("_axis")


def _is_negative(axes: Axes) -> bool:
    if axes is None:
        return False
    return axes < 0 if isinstance(axes, int) else any(int(axis) < 0 for axis in axes)


def _positive(axes: Axes, rank: int) -> Axes:
    if axes is None:
        return None
    return axes % rank if isinstance(axes, int) else [int(axis) % rank for axis in axes]
