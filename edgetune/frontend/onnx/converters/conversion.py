"""Cast conversion: casts floats to integers in as few operations as ONNX permits."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_NARROW = ("int8", "uint8", "int16", "uint16")


class Cast(tvm_onnx.Cast):
    """Truncates floats to integers; ONNX does not define the result of a value that does not fit.

    Types below 32 bits keep the low bits of the int32, as ONNX Runtime and NumPy do. TVM writes that and more as a
    dozen operators that read their operand four times: when fused, two casts in a row take minutes to lower.
    """

    @classmethod
    def _impl_v13(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        x = inputs[0]
        source = str(x.ty.dtype) if isinstance(x, relax.Expr) and isinstance(x.ty, relax.TensorType) else ""
        to = helper.tensor_dtype_to_np_dtype(attr["to"])
        if isinstance(x, GenericConst) or source not in _FLOATS or to.kind not in "iu":
            return super()._impl_v13(bb, inputs, attr, params)
        if to.name in _NARROW and not _fits(bb, x, to):
            x = relax.op.astype(x, "int32")
        elif to.name == "uint32":
            x = relax.op.astype(x, "int64")
        return relax.op.astype(x, to.name)


def _fits(bb: relax.BlockBuilder, x: relax.Expr, to: np.dtype[Any]) -> bool:
    """Whether `x` is a minimum of a maximum, both with constants, or the reverse, and its range fits in `to`."""
    bounds: dict[str, float] = {}
    for _ in range(2):
        call = bb.lookup_binding(x) if isinstance(x, relax.Var) else x
        if not isinstance(call, relax.Call) or call.op.name not in {"relax.minimum", "relax.maximum"}:
            return False
        constants = [a for a in call.args if isinstance(a, GenericConst) and a.value.numpy().size == 1]
        if len(constants) != 1:
            return False
        bounds[call.op.name] = float(constants[0].value.numpy().reshape(()))
        x = next(a for a in call.args if not a.same_as(constants[0]))
    limits = np.iinfo(to)
    least, most = bounds.get("relax.maximum", -np.inf), bounds.get("relax.minimum", np.inf)
    return bool(limits.min <= least <= most <= limits.max)
