"""Floating-point remainder: Mod of floats, as C's fmod computes it."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx, topi
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx


class Mod(tvm_onnx.Mod):
    """Floats: C's fmod (TVM prints an integer remainder); TVM converts integers."""

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        if "float" not in str(inputs[0].ty.dtype):
            return super()._impl_v10(bb, inputs, attr, params)

        def remainder(x: te.Tensor, y: te.Tensor) -> te.Tensor:
            sample = topi.add(x, y)
            wide_x, wide_y = topi.broadcast_to(x, sample.shape), topi.broadcast_to(y, sample.shape)
            return te.compute(sample.shape, lambda *i: tirx.fmod(wide_x(*i), wide_y(*i)), name="remainder")

        return bb.emit_te(remainder, inputs[0], inputs[1])
