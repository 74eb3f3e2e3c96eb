"""Training batch normalisation with batch statistics."""

from __future__ import annotations

import numpy as np
import onnx

from edgetune.frontend.onnx.decompositions.builder import Builder


def batch_normalization(b: Builder, _: onnx.NodeProto) -> bool:
    """The variant for training: mean and variance of the batch, and the updated running statistics."""
    if not b.attributes.get("training_mode", 0):
        return False
    x = b.input(0)
    shape = b.shape(x)
    dtype = b.dtype(x)
    count = int(np.prod(shape)) // shape[1]
    rows = b.reshape(b.op("Transpose", x, perm=[1, 0, *range(2, len(shape))]), shape[1], count)
    scaling = b.constant(1 / count, dtype)
    mean = b.op("Mul", b.total(rows, 1), scaling)
    centred = b.op("Sub", rows, mean)
    variance = b.op("Mul", b.total(b.op("Mul", centred, centred), 1), scaling)
    epsilon = b.constant(b.attributes.get("epsilon", 1e-5), dtype)
    root = b.op("Sqrt", b.op("Add", variance, epsilon))
    lift = [1, shape[1], *[1] * (len(shape) - 2)]
    normal = b.op("Div", b.op("Sub", x, b.reshape(mean, *lift)), b.reshape(root, *lift))
    scaled = b.op("Mul", normal, b.reshape(b.input(1), *lift))
    b.output(0, b.op("Add", scaled, b.reshape(b.input(2), *lift)))
    momentum = b.attributes.get("momentum", 0.9)
    for index, (old, new) in enumerate(((b.input(3), mean), (b.input(4), variance)), 1):
        kept = b.op("Mul", old, b.constant(momentum, b.dtype(old)))
        fresh = b.op("Mul", b.reshape(new, -1), b.constant(1 - momentum, dtype))
        b.output(index, b.op("Add", kept, b.cast(fresh, b.dtype(old))))
    return True
