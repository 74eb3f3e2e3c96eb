"""Fixed-point converters: `edgetune::FixedPointScale` and its kin as one call each."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.graph.fixed_point_calls import FixedPoint, fixed_point_call


class FixedPointScale(tvm_onnx.OnnxOpConverter):
    """One scale of all elements is part of the code, several are a table."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], _params: Any) -> relax.Expr:
        value, scales = inputs
        return fixed_point_call(bb, FixedPoint(value, scales, cls._once))

    _once = False


class FixedPointScaleOnce(FixedPointScale):
    """The same with one rounding."""

    _once = True
