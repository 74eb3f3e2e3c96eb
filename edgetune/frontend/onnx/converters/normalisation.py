"""Normalisation: by batch statistics at inference, which folds into a preceding convolution, and by nearby channels."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.graph.rewrite import constant_of

_IMAGE = 4
"""Axes of images."""

_THREE_QUARTERS = 0.75


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


class LRN(tvm_onnx.OnnxOpConverter):
    """x / (bias + alpha * m)^beta, where m is the mean of squares over `size` channels, those outside being 0.

    An even size takes one more channel behind than before, as ONNX defines it. The default power, 3/4, is computed by
    two square roots: where the base is negative, both give NaN.
    """

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        x, size = inputs[0], int(attr["size"])
        shape = [int(extent) for extent in x.ty.shape]
        if 0 in shape:
            return x
        before = (size - 1) // 2
        behind = size - 1 - before
        squares = relax.op.multiply(x, x)
        pooling: dict[str, Any] = {"ceil_mode": False, "count_include_pad": True}
        if len(shape) == _IMAGE:
            pooling |= {"pool_size": (size, 1, 1), "padding": [before, 0, 0, behind, 0, 0], "layout": "NCDHW"}
            near = relax.op.nn.avg_pool3d(relax.op.expand_dims(squares, axis=1), **pooling)
            mean = relax.op.squeeze(near, axis=1)
        else:
            pooling |= {"pool_size": (size, 1), "padding": [before, 0, behind, 0], "layout": "NCHW"}
            rows = relax.op.reshape(squares, [shape[0], 1, shape[1], prod(shape[2:])])
            mean = relax.op.reshape(relax.op.nn.avg_pool2d(rows, **pooling), shape)
        alpha, beta, bias = attr.get("alpha", 1e-4), attr.get("beta", 0.75), attr.get("bias", 1.0)
        dtype = str(x.ty.dtype)
        s = relax.op.add(relax.op.multiply(mean, relax.const(alpha, dtype)), relax.const(bias, dtype))
        if beta == _THREE_QUARTERS:
            root = bb.emit(relax.op.sqrt(s))
            return relax.op.divide(x, relax.op.multiply(root, relax.op.sqrt(root)))
        return relax.op.divide(x, relax.op.power(s, relax.const(beta, dtype)))
