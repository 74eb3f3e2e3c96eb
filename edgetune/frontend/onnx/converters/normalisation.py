"""Batch normalisation for inference: one multiplication and one addition, which fold into a preceding convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.graph.rewrite import constant_of


class BatchNormalization(tvm_onnx.BatchNormalization):
    """y = x * s + t with s = scale / sqrt(var + epsilon), t = bias - mean * s (ONNX, inference)."""

    @classmethod
    def _impl_v9(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return cls._inference(bb, inputs, attr, params)

    @classmethod
    def _impl_v15(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return cls._inference(bb, inputs, attr, params)

    @classmethod
    def _inference(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        statistics = list(inputs)[1:5]
        if attr.get("training_mode", 0) or not all(isinstance(s, GenericConst) for s in statistics):
            return tvm_onnx.BatchNormalization._impl_v15(bb, inputs, attr, params)
        dtype = str(inputs[0].ty.dtype)
        scale, bias, mean, var = (s.value.numpy().astype("float64") for s in statistics)
        factor = scale / np.sqrt(var + attr.get("epsilon", 1e-5))
        shift = bias - mean * factor
        rank = len(inputs[0].ty.shape)
        shape = [1, -1] + [1] * (rank - 2) if rank > 1 else [-1]
        scaled = relax.op.multiply(inputs[0], constant_of(factor.reshape(shape).astype(dtype)))
        return relax.op.add(scaled, constant_of(shift.reshape(shape).astype(dtype)))
