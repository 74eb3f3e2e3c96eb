"""Fixed-point converters: `edgetune::FixedPointScale` and its kin as one call each."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.graph.fixed_point import fixed_point_scale, fixed_point_scale_once
from edgetune.tvm_types import Expr


class FixedPointScale(tvm_onnx.OnnxOpConverter):
    """One scale of all elements is part of the code, several are a table."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], _params: Any) -> relax.Expr:
        value, scales = inputs
        number = _number(scales)

        def fixed_point_scale(x: te.Tensor, *tables: te.Tensor) -> te.Tensor:
            def at(*i: tirx.Var) -> Expr:
                scale = _element(tables[0], i) if tables else tirx.const(number, "uint32")
                return cls._scaled(x(*i), scale)

            return te.compute(x.shape, at, name="fixed_point_scale")

        return bb.emit_te(fixed_point_scale, value, *([scales] if number is None else []))

    _scaled = staticmethod(fixed_point_scale)


class FixedPointScaleOnce(FixedPointScale):
    """The same with one rounding."""

    _scaled = staticmethod(fixed_point_scale_once)


def _number(operand: relax.Expr) -> int | None:
    """The one element of a constant, None of any other operand."""
    if not isinstance(operand, GenericConst):
        return None
    array = operand.value.numpy()
    return int(array.reshape(-1)[0]) if array.size and np.all(array == array.reshape(-1)[0]) else None


def _element(tensor: te.Tensor, index: tuple[tirx.Var, ...]) -> Expr:
    """The element that broadcasts to `index`."""
    own = index[len(index) - len(tensor.shape) :]
    return tensor(*(0 if int(extent) == 1 else at for extent, at in zip(tensor.shape, own, strict=True)))
