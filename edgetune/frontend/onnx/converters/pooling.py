"""Pooling with `auto_pad` SAME_*: as ONNX defines it, there are as many results as strides begin in the extent."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.errors import UnsupportedOperator


def _padded(attr: dict[str, Any], extents: list[int]) -> dict[str, Any]:
    """`attr` with pads instead of auto_pad SAME_UPPER or SAME_LOWER; TVM rounds SAME_LOWER down.

    ONNX's definition and ONNX Runtime give ceil(extent / stride) results along each axis. Of an odd pad, the longer
    part is at the end for SAME_UPPER and at the start for SAME_LOWER.
    """
    mode = attr.get("auto_pad", b"NOTSET").decode()
    if not mode.startswith("SAME"):
        return attr
    rank = len(extents)
    if any(dilation != 1 for dilation in attr.get("dilations", [])):
        raise UnsupportedOperator(
            f"a pooling operator has dilations and auto_pad {mode}, for which ONNX's reference evaluator and ONNX "
            "Runtime give different results; give pads in place of auto_pad"
        )
    begin, end = [], []
    for extent, kernel, stride in zip(extents, attr["kernel_shape"], attr.get("strides", [1] * rank), strict=True):
        total = max((-(-extent // stride) - 1) * stride + kernel - extent, 0)
        shorter = total // 2
        begin.append(shorter if mode == "SAME_UPPER" else total - shorter)
        end.append(total - begin[-1])
    return dict(attr) | {"auto_pad": b"NOTSET", "pads": begin + end}


class _SamePadded:
    """Mixin that precedes one of TVM's pooling converters."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        theirs: Any = super()
        return theirs._impl_v1(bb, inputs, _padded(attr, [int(e) for e in list(inputs[0].ty.shape)[2:]]), params)


class MaxPool(_SamePadded, tvm_onnx.MaxPool):
    """Maxima of windows."""


class AveragePool(_SamePadded, tvm_onnx.AveragePool):
    """Means of windows."""


class LpPool(_SamePadded, tvm_onnx.LpPool):
    """Norms of windows."""
