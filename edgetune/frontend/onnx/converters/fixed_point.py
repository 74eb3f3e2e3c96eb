"""Fixed-point converters: `edgetune::FixedPointScale` and its kin as one call each."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.errors import UnsupportedOperator
from edgetune.graph import fixed_point


class FixedPointScale(tvm_onnx.OnnxOpConverter):
    """One number for all elements is part of the code, several are a table."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], _params: Any) -> relax.Expr:
        value, multiplier, right = inputs
        if not isinstance(right, GenericConst):
            raise UnsupportedOperator(f"operator {cls.__name__} computes its shifts at run time; make them constant")
        tables = [multiplier, relax.const(right.value.numpy().astype(np.int8))]
        numbers = [_number(table) for table in tables]
        tensors = [table for table, number in zip(tables, numbers, strict=True) if number is None]

        def fixed_point_scale(x: te.Tensor, *rest: te.Tensor) -> te.Tensor:
            def at(*i: tirx.Var) -> tirx.Expr:
                given = iter(rest)
                operands = (
                    _element(next(given), i).astype("int32") if number is None else tirx.const(number, "int32")
                    for number in numbers
                )
                return cls._scaled(x(*i), *operands)

            return te.compute(x.shape, at, name="fixed_point_scale")

        return bb.emit_te(fixed_point_scale, value, *tensors)

    _scaled = staticmethod(fixed_point.fixed_point_scale)


class FixedPointScaleOnce(FixedPointScale):
    """The same with one rounding."""

    _scaled = staticmethod(fixed_point.fixed_point_scale_once)


def _number(operand: relax.Expr) -> int | None:
    """The one element of a constant, None of any other operand."""
    if not isinstance(operand, GenericConst):
        return None
    array = operand.value.numpy()
    return int(array.reshape(-1)[0]) if array.size and np.all(array == array.reshape(-1)[0]) else None


def _element(tensor: te.Tensor, index: tuple[tirx.Var, ...]) -> tirx.Expr:
    """The element that broadcasts to `index`."""
    own = index[len(index) - len(tensor.shape) :]
    return tensor(*(0 if int(extent) == 1 else at for extent, at in zip(tensor.shape, own, strict=True)))
