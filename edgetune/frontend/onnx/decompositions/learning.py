"""Optimiser steps (ai.onnx.preview.training) and small operators of ai.onnx.ml (ONNX operator specifications)."""

from __future__ import annotations

import onnx

from edgetune.frontend.onnx.decompositions.builder import Builder


def binarizer(b: Builder, _: onnx.NodeProto) -> None:
    """1 where x is above the threshold, else 0."""
    x = b.input(0)
    threshold = b.constant(b.attributes.get("threshold", 0.0), b.dtype(x))
    b.output(0, b.cast(b.op("Greater", x, threshold), b.dtype(x)))


def array_feature_extractor(b: Builder, _: onnx.NodeProto) -> None:
    """Selects columns by their numbers."""
    shape = b.shape(b.input(0))
    indices = b.reshape(b.input(1), -1)
    taken = b.op("Gather", b.input(0), indices, axis=len(shape) - 1)
    b.output(0, b.reshape(taken, 1, -1) if len(shape) == 1 else taken)


def momentum(b: Builder, node: onnx.NodeProto) -> None:
    """One step with momentum, standard or Nesterov."""
    count = (len(node.input) - 2) // 3
    rate, step = b.input(0), b.input(1)
    for i in range(count):
        x, gradient, velocity = (b.input(2 + i + k * count) for k in range(3))
        dtype = b.dtype(x)
        alpha, beta = (b.constant(b.attributes[n], dtype) for n in ("alpha", "beta"))
        gradient = _regularised(b, x, gradient)
        first = b.op("Equal", step, b.constant(0, b.dtype(step)))
        weight = b.op("Where", first, b.constant(1, dtype), beta)
        fresh = b.op("Add", b.op("Mul", alpha, velocity), b.op("Mul", weight, gradient))
        move = b.op("Add", gradient, b.op("Mul", alpha, fresh)) if b.text("mode", "standard") == "nesterov" else fresh
        b.output(i, b.op("Sub", x, b.op("Mul", rate, move)))
        b.output(count + i, fresh)


def adagrad(b: Builder, node: onnx.NodeProto) -> None:
    """One step of Adagrad."""
    count = (len(node.input) - 2) // 3
    for i in range(count):
        x, gradient, squares = (b.input(2 + i + k * count) for k in range(3))
        dtype = b.dtype(x)
        decay = b.op("Mul", b.cast(b.input(1), dtype), b.constant(b.attributes.get("decay_factor", 0.0), dtype))
        rate = b.op("Div", b.input(0), b.op("Add", b.constant(1, dtype), decay))
        gradient = _regularised(b, x, gradient)
        fresh = b.op("Add", squares, b.op("Mul", gradient, gradient))
        root = b.op("Add", b.op("Sqrt", fresh), b.constant(b.attributes.get("epsilon", 0.0), dtype))
        b.output(i, b.op("Sub", x, b.op("Div", b.op("Mul", rate, gradient), root)))
        b.output(count + i, fresh)


def adam(b: Builder, node: onnx.NodeProto) -> None:
    """One step of Adam."""
    count = (len(node.input) - 2) // 4
    for i in range(count):
        x, gradient, mean, square = (b.input(2 + i + k * count) for k in range(4))
        dtype = b.dtype(x)
        alpha, beta = b.attributes.get("alpha", 0.9), b.attributes.get("beta", 0.999)
        gradient = _regularised(b, x, gradient)
        mean = _mixed(b, mean, gradient, alpha, dtype)
        square = _mixed(b, square, b.op("Mul", gradient, gradient), beta, dtype)
        step = b.cast(b.input(1), dtype)
        one = b.constant(1, dtype)
        unbiased = b.op("Sqrt", b.op("Sub", one, b.op("Pow", b.constant(beta, dtype), step)))
        unbiased = b.op("Div", unbiased, b.op("Sub", one, b.op("Pow", b.constant(alpha, dtype), step)))
        first = b.op("Greater", b.input(1), b.constant(0, b.dtype(b.input(1))))
        rate = b.op("Mul", b.input(0), b.op("Where", first, unbiased, one))
        root = b.op("Add", b.op("Sqrt", square), b.constant(b.attributes.get("epsilon", 0.0), dtype))
        moved = b.op("Sub", x, b.op("Div", b.op("Mul", rate, mean), root))
        shrink = b.constant(1 - b.attributes.get("norm_coefficient_post", 0.0), dtype)
        b.output(i, b.op("Mul", shrink, moved))
        b.output(count + i, mean)
        b.output(2 * count + i, square)


def _regularised(b: Builder, x: str, gradient: str) -> str:
    coefficient = b.constant(b.attributes.get("norm_coefficient", 0.0), b.dtype(x))
    return b.op("Add", b.op("Mul", coefficient, x), gradient)


def _mixed(b: Builder, old: str, new: str, weight: float, dtype: object) -> str:
    kept = b.op("Mul", b.constant(weight, dtype), old)
    return b.op("Add", kept, b.op("Mul", b.constant(1 - weight, dtype), new))
