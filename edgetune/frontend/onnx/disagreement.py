"""Sensitivity to summation order: measures how far two valid evaluators of a quantised model differ.

No implementation can be required to be more accurate than this difference. ONNX defines a quantised layer by float
arithmetic, but does not define the order of the sum in a convolution. Where a sum is near the middle between two
integers, the order decides which one results. Most networks absorb such a step; some amplify it from layer to layer
until most outputs differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv import _conv_implementation

from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.reference import Arrays, evaluable
from edgetune.frontend.onnx.reference_evaluator import reference_evaluator


@dataclass(frozen=True)
class Disagreement:
    """Difference of one output: the largest one, in its own unit, and the share (0 to 1) of elements that differ."""

    largest: float
    share: float


def disagreement(model: OnnxModel, feeds: Sequence[Arrays], answers: Sequence[Arrays]) -> Mapping[str, Disagreement]:
    """Compare `answers` (of the ONNX reference evaluator for `feeds`) with those of the same evaluator with other sums.

    In one variant the sums of convolutions and matrix products are computed in double precision and rounded once; in
    the other they run backwards. Integers sum exactly in both.
    """
    proto = evaluable(model)
    found: dict[str, Disagreement] = {}
    for operators in (_IN_DOUBLE, _BACKWARDS):
        session = reference_evaluator(proto, operators)
        names = [o.name for o in proto.graph.output]
        for feed, answer in zip(feeds, answers, strict=True):
            for name, other in zip(names, session.run(names, {**model.weights, **feed}), strict=True):
                error = np.abs(np.asarray(other, np.float64) - np.asarray(answer[name], np.float64))
                before = found.get(name, Disagreement(0.0, 0.0))
                largest, share = float(error.max(initial=0.0)), float(np.mean(error > 0.0)) if error.size else 0.0
                found[name] = Disagreement(max(before.largest, largest), max(before.share, share))
    return found


def _float(*arrays: np.ndarray | None) -> bool:
    return all(array is None or array.dtype == np.float32 for array in arrays)


def _double(array: np.ndarray | None) -> np.ndarray | None:
    return None if array is None else array.astype(np.float64)


def _conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, attributes: dict[str, Any]) -> np.ndarray:
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    return np.asarray(_conv_implementation(x, w, b, *(attributes.get(name) for name in names)))


class _ConvInDouble(OpRun):
    op_domain = ""

    def _run(self, x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, **attributes: Any) -> tuple[np.ndarray]:
        if not _float(x, w, b):
            return (_conv(x, w, b, attributes).astype(x.dtype),)
        wide = _conv(x.astype(np.float64), w.astype(np.float64), _double(b), attributes)
        return (wide.astype(np.float32),)


class _ConvBackwards(OpRun):
    op_domain = ""

    def _run(self, x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, **attributes: Any) -> tuple[np.ndarray]:
        if attributes.get("group") == 1:
            x, w = np.ascontiguousarray(x[:, ::-1]), np.ascontiguousarray(w[:, ::-1])
        return (_conv(x, w, b, attributes).astype(x.dtype),)


def _gemm(
    a: np.ndarray, b: np.ndarray, c: np.ndarray | None, attributes: dict[str, Any], dtype: type[np.floating[Any]]
) -> np.ndarray:
    alpha, beta = attributes.get("alpha"), attributes.get("beta")
    left = a.T if attributes.get("transA") else a
    right = b.T if attributes.get("transB") else b
    product = (left.astype(dtype) @ right.astype(dtype)) * dtype(1.0 if alpha is None else alpha)
    if c is not None:
        product = product + c.astype(dtype) * dtype(1.0 if beta is None else beta)
    return np.asarray(product)


class _GemmInDouble(OpRun):
    op_domain = ""

    def _run(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, **attributes: Any) -> tuple[np.ndarray]:
        return (_gemm(a, b, c, attributes, np.float64).astype(a.dtype),)


class _GemmBackwards(OpRun):
    op_domain = ""

    def _run(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, **attributes: Any) -> tuple[np.ndarray]:
        a = a[::-1] if attributes.get("transA") else a[:, ::-1]
        b = b[:, ::-1] if attributes.get("transB") else b[::-1]
        return (_gemm(a, b, c, attributes, np.float32 if _float(a, b, c) else np.float64).astype(a.dtype),)


class _MatMulInDouble(OpRun):
    op_domain = ""

    def _run(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray]:
        if not _float(a, b):
            return (np.matmul(a, b),)
        return (np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.float32),)


class _MatMulBackwards(OpRun):
    op_domain = ""

    def _run(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray]:
        if a.ndim > 1 and b.ndim > 1:
            a, b = np.ascontiguousarray(a[..., ::-1]), np.ascontiguousarray(b[..., ::-1, :])
        return (np.matmul(a, b),)


def _named(name: str, operator: type[OpRun]) -> type[OpRun]:
    """A class with this name, because the evaluator finds operators by the name of their class."""
    return type(name, (operator,), {"op_domain": ""})


_IN_DOUBLE = [_named("Conv", _ConvInDouble), _named("Gemm", _GemmInDouble), _named("MatMul", _MatMulInDouble)]
_BACKWARDS = [_named("Conv", _ConvBackwards), _named("Gemm", _GemmBackwards), _named("MatMul", _MatMulBackwards)]
