"""Resize as weighted sums of constant selections along each axis: every mode of the ONNX specification.

Sizes and scales are constant, so the contributing elements and their weights are known. TVM's own operator stays
where it computes what ONNX specifies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from edgetune.frontend.onnx.decompositions.builder import Builder

_RANKS = (3, 4, 5)
"""Ranks of what TVM's operator resizes."""


def resize(b: Builder, _: onnx.NodeProto) -> bool:
    """Resizes all axes, one after another."""
    x = b.input(0)
    shape = b.shape(x)
    sizes, scales, axes = _geometry(b, shape)
    if sizes is None or scales is None or not _is_ours(b, shape, sizes, scales):
        return False
    coordinates = b.text("coordinate_transformation_mode", "half_pixel" if b.opset >= 11 else "asymmetric")
    region = b.value(b.input(1)) if b.input(1) and coordinates == "tf_crop_and_resize" else None
    outside = np.zeros(sizes, bool)
    value = x
    for axis in range(len(shape)):
        if sizes[axis] == shape[axis] and scales[axis] == 1.0 and region is None:
            continue
        span = (0.0, 1.0)
        if region is not None and axis in axes:
            place = axes.index(axis)
            span = (float(region[place]), float(region[place + len(axes)]))
        positions, beyond = _positions(coordinates, shape[axis], sizes[axis], scales[axis], span)
        aligned = [1] * len(shape)
        aligned[axis] = sizes[axis]
        outside |= beyond.reshape(aligned)
        value = _along(b, value, axis, positions, shape[axis], scales[axis])
    if region is not None and outside.any():
        filler = b.constant(b.attributes.get("extrapolation_value", 0.0), b.dtype(x))
        value = b.op("Where", b.constant(outside), filler, value)
    b.output(0, value)
    return True


def _geometry(b: Builder, shape: tuple[int, ...]) -> tuple[list[int] | None, list[float] | None, list[int]]:
    """Sizes and scales of all axes, and the axes that the node names; None where they are not constant."""
    rank = len(shape)
    axes = [int(a) % rank for a in b.attributes.get("axes", range(rank))]
    sizes, scales = list(shape), [1.0] * rank
    given = b.value(b.input(2)) if b.input(2) else None
    if b.opset < 11:
        given = b.value(b.input(1)) if b.input(1) else np.asarray(b.attributes.get("scales", []))
    if given is not None and given.size:
        for axis, scale in zip(axes, given, strict=True):
            scales[axis] = float(scale)
            sizes[axis] = int(np.floor(shape[axis] * float(scale)))
        return sizes, scales, axes
    wanted = b.value(b.input(3)) if b.input(3) else None
    if wanted is None:
        return None, None, axes
    ratios = [float(w) / shape[a] for a, w in zip(axes, wanted, strict=True)]
    policy = b.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        ratios = [ratio] * len(axes)
    for axis, ratio, want in zip(axes, ratios, wanted, strict=True):
        sizes[axis] = int(want) if policy == "stretch" else int(np.floor(ratio * shape[axis] + 0.5))
        scales[axis] = ratio if policy != "stretch" else sizes[axis] / shape[axis]
    return sizes, scales, axes


def _is_ours(b: Builder, shape: tuple[int, ...], sizes: list[int], scales: list[float]) -> bool:
    """Whether TVM's operator lacks this variant, or takes the scale from the rounded sizes.

    It resizes images (N, C, ...) of one to three axes, and leaves the first two axes as they are.
    """
    images = len(shape) in _RANKS and list(shape[:2]) == sizes[:2]
    inexact = any(abs(n / e - s) > 1e-9 for e, n, s in zip(shape, sizes, scales, strict=True))
    special = "axes" in b.attributes or b.attributes.get("antialias", 0) or "keep_aspect_ratio_policy" in b.attributes
    symmetric = b.text("coordinate_transformation_mode", "half_pixel") == "half_pixel_symmetric"
    return bool(not images or inexact or special or symmetric or b.opset < 11)


def _positions(mode: str, old: int, new: int, scale: float, span: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Position of each result element among the `old` ones, and which positions are outside."""
    x = np.arange(new, dtype="float64")
    if mode == "align_corners":
        found = x * (old - 1) / (scale * old - 1) if new > 1 else np.zeros(new)
    elif mode == "asymmetric":
        found = x / scale
    elif mode == "tf_crop_and_resize":
        start, end = span
        step = (end - start) * (old - 1) / (new - 1) if new > 1 else 0.0
        found = start * (old - 1) + x * step if new > 1 else np.full(1, 0.5 * (start + end) * (old - 1))
        return found, (found < 0) | (found > old - 1)
    elif mode == "half_pixel_symmetric":
        adjustment = new / (scale * old)
        centre = old / 2
        found = centre * (1 - adjustment) + (x + 0.5) / scale - 0.5
    elif mode == "pytorch_half_pixel" and new == 1:
        found = np.full(1, -0.5)
    else:
        found = (x + 0.5) / scale - 0.5
    return found, np.zeros(new, bool)


def _along(b: Builder, value: str, axis: int, positions: np.ndarray, old: int, scale: float) -> str:
    mode = b.text("mode", "nearest")
    if mode == "nearest":
        chosen = np.clip(_rounded(b.text("nearest_mode", "round_prefer_floor"), positions, b.opset), 0, old - 1)
        return b.op("Gather", value, b.constant(chosen, "int64"), axis=axis)
    squeeze = min(scale, 1.0) if b.attributes.get("antialias", 0) else 1.0
    reach = (1.0 if mode == "linear" else 2.0) / squeeze
    kernel = _linear if mode == "linear" else _cubic(float(b.attributes.get("cubic_coeff_a", -0.75)))
    first = np.floor(positions - reach).astype(int) + 1
    taps = int(np.ceil(2 * reach)) + 1
    index = first[:, None] + np.arange(taps)[None, :]
    weights = kernel((positions[:, None] - index) * squeeze)
    if b.attributes.get("exclude_outside", 0) or squeeze != 1.0:
        if b.attributes.get("exclude_outside", 0):
            weights = np.where((index < 0) | (index >= old), 0.0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    dense = np.zeros((len(positions), old))
    np.add.at(dense, (np.arange(len(positions))[:, None], np.clip(index, 0, old - 1)), weights)
    return _weighted(b, value, axis, dense)


def _weighted(b: Builder, value: str, axis: int, dense: np.ndarray) -> str:
    """The sum over taps of weight * selection, where row r of `dense` holds the weights of result element r."""
    order = np.argsort(dense == 0, axis=1, kind="stable")
    rank = len(b.shape(value))
    aligned = [1] * rank
    aligned[axis] = len(dense)
    total = ""
    for tap in range(int((dense != 0).sum(axis=1).max())):
        rows = np.arange(len(dense))
        taken = b.op("Gather", value, b.constant(order[:, tap], "int64"), axis=axis)
        weight = b.constant(dense[rows, order[:, tap]].reshape(aligned), b.dtype(value))
        term = b.op("Mul", taken, weight)
        total = term if not total else b.op("Add", total, term)
    return total


def _rounded(mode: str, positions: np.ndarray, opset: int) -> np.ndarray:
    if mode == "floor" or opset < 11:
        return np.asarray(np.floor(positions))
    if mode == "ceil":
        return np.asarray(np.ceil(positions))
    return np.asarray(np.ceil(positions - 0.5) if mode == "round_prefer_floor" else np.floor(positions + 0.5))


def _linear(distance: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(1 - np.abs(distance), 0))


def _cubic(a: float) -> Any:
    def kernel(distance: np.ndarray) -> np.ndarray:
        d = np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    return kernel
