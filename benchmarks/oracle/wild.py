"""Five networks of kinds that models in the wild have, with random weights: ends and blocks that are no plain chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

import numpy as np
import onnx

from benchmarks.oracle.onnx_graph import OnnxGraph
from edgetune.search.seeds import derive_seed


class _Network(OnnxGraph):
    """A graph with random weights; equal in every process."""

    def __init__(self, name: str, inputs: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__(name, inputs)
        self._numbers = np.random.default_rng(derive_seed(0, name, "weights"))

    def drawn(self, *shape: int, terms: int = 1) -> np.ndarray:
        """Normally distributed weights, such that a sum of so many products with them keeps its variance."""
        return (self._numbers.standard_normal(shape) / sqrt(terms)).astype(np.float32)

    def dense(self, x: str, inner: int, outer: int) -> str:
        """A product with a matrix, and a bias."""
        return self("Add", self("MatMul", x, self.drawn(inner, outer, terms=inner)), self.drawn(outer))

    def convolution(self, x: str, inner: int, outer: int, taps: int = 1, stride: int = 1, groups: int = 1) -> str:
        """A convolution with a bias, padded so that a stride of 1 keeps the extents."""
        kernel = self.drawn(outer, inner // groups, taps, taps, terms=inner // groups * taps**2)
        pads = [taps // 2] * 4
        return self("Conv", x, kernel, self.drawn(outer), strides=[stride] * 2, pads=pads, group=groups)

    def norm(self, x: str, width: int) -> str:
        """A layer norm over the last axis."""
        return self("LayerNormalization", x, 1 + self.drawn(width, terms=9), self.drawn(width), axis=-1, epsilon=1e-5)


def _window_attention() -> onnx.ModelProto:
    """A block of a shifted-window transformer: attention in windows of 7x7 pixels, and two products."""
    side, window, heads, width = 28, 7, 4, 48
    across, pixels, depth = side // window, window**2, width // heads
    g = _Network("window_attention", {"x": (1, side, side, width)})
    shifted = g("Reshape", g.norm("x", width), [1, across, window, across, window, width])
    rows = g("Reshape", g("Transpose", shifted, perm=[0, 1, 3, 2, 4, 5]), [across**2, pixels, width])
    parts = g("Reshape", g.dense(rows, width, 3 * width), [across**2, pixels, 3, heads, depth])
    turned = g("Transpose", parts, perm=[2, 0, 3, 1, 4])
    q, k, v = (g("Gather", turned, np.array(number), axis=0) for number in range(3))
    scores = g("MatMul", g("Mul", q, depth**-0.5), g("Transpose", k, perm=[0, 1, 3, 2]))
    region = np.arange(across**2)[:, None] % 2 * (np.arange(pixels) >= pixels // 2)
    masked = np.where(region[:, :, None] == region[:, None], 0.0, -100.0).astype(np.float32)[:, None]
    weights = g("Softmax", g("Add", g("Add", scores, g.drawn(1, heads, pixels, pixels)), masked), axis=-1)
    mixed = g("Transpose", g("MatMul", weights, v), perm=[0, 2, 1, 3])
    projected = g.dense(g("Reshape", mixed, [across**2, pixels, width]), width, width)
    whole = g("Reshape", projected, [1, across, across, window, window, width])
    image = g("Reshape", g("Transpose", whole, perm=[0, 1, 3, 2, 4, 5]), [1, side, side, width])
    kept = g("Add", "x", image)
    hidden = g("Gelu", g.dense(g.norm(kept, width), width, 2 * width))
    return g.model({"y": g("Add", kept, g.dense(hidden, 2 * width, width))})


def _channel_shuffle() -> onnx.ModelProto:
    """Three units of a shuffle network: half of the channels pass, and channels of both halves are interleaved."""
    side, channels = 28, 48
    half = channels // 2
    g = _Network("channel_shuffle", {"x": (1, channels, side, side)})

    def shuffled(x: str, groups: int, count: int, extent: int) -> str:
        parts = g("Transpose", g("Reshape", x, [1, groups, count // groups, extent, extent]), perm=[0, 2, 1, 3, 4])
        return g("Reshape", parts, [1, count, extent, extent])

    def unit(x: str) -> str:
        kept, changed = g.several("Split", 2, x, axis=1, num_outputs=2)
        first = g("Relu", g.convolution(changed, half, half))
        last = g("Relu", g.convolution(g.convolution(first, half, half, 3, groups=half), half, half))
        return shuffled(g("Concat", kept, last, axis=1), 2, channels, side)

    grouped = g("Relu", g.convolution(unit(unit("x")), channels, channels, groups=3))
    narrow = g.convolution(shuffled(grouped, 3, channels, side), channels, channels, 3, 2, groups=channels)
    pooled = g("AveragePool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    return g.model({"y": g("Relu", g("Concat", g.convolution(narrow, channels, channels, groups=3), pooled, axis=1))})


def _depthwise_5x5() -> onnx.ModelProto:
    """Two inverted bottlenecks with filters of 5x5, hard activations, and channels weighted by their means."""
    side, channels, wide, narrow = 40, 24, 72, 24
    g = _Network("depthwise_5x5", {"x": (1, channels, side, side)})

    def weighted(x: str) -> str:
        mean = g("GlobalAveragePool", x)
        inner = g("Relu", g.convolution(mean, wide, narrow))
        return g("Mul", x, g("HardSigmoid", g.convolution(inner, narrow, wide), alpha=1 / 6, beta=0.5))

    def block(x: str, stride: int, outer: int) -> str:
        spread = g("HardSwish", g.convolution(x, channels, wide))
        filtered = g("HardSwish", g.convolution(spread, wide, wide, 5, stride, groups=wide))
        return g.convolution(weighted(filtered), wide, outer)

    kept = g("Add", "x", block("x", 1, channels))
    return g.model({"y": block(kept, 2, 40)})


def _decoder_step() -> onnx.ModelProto:
    """A step of a decoder with the keys and values of the 63 tokens before, which it appends to."""
    heads, depth, past = 4, 32, 63
    width, hidden = heads * depth, 256
    cache = (1, heads, past, depth)
    angles = (1, 1, 1, depth // 2)
    inputs = {"x": (1, 1, width), "keys": cache, "values": cache, "cosine": angles, "sine": angles}
    g = _Network("decoder_step", inputs)

    def unit(x: str) -> str:
        square = g("ReduceMean", g("Mul", x, x), [-1])
        return g("Mul", g("Div", x, g("Sqrt", g("Add", square, 1e-5))), 1 + g.drawn(width, terms=9))

    def projected(x: str, inner: int, outer: int) -> str:
        return g("MatMul", x, g.drawn(inner, outer, terms=inner))

    def of_heads(x: str) -> str:
        return g("Transpose", g("Reshape", projected(x, width, width), [1, 1, heads, depth]), perm=[0, 2, 1, 3])

    def turned(x: str) -> str:
        first, second = g.several("Split", 2, x, axis=3, num_outputs=2)
        left = g("Sub", g("Mul", first, "cosine"), g("Mul", second, "sine"))
        return g("Concat", left, g("Add", g("Mul", second, "cosine"), g("Mul", first, "sine")), axis=3)

    rows = unit("x")
    keys = g("Concat", "keys", turned(of_heads(rows)), axis=2)
    values = g("Concat", "values", of_heads(rows), axis=2)
    scores = g("MatMul", turned(of_heads(rows)), g("Transpose", keys, perm=[0, 1, 3, 2]))
    mixed = g("MatMul", g("Softmax", g("Mul", scores, depth**-0.5), axis=-1), values)
    joined = g("Reshape", g("Transpose", mixed, perm=[0, 2, 1, 3]), [1, 1, width])
    kept = g("Add", "x", projected(joined, width, width))
    inner = unit(kept)
    gate = projected(inner, width, hidden)
    opened = g("Mul", g("Mul", gate, g("Sigmoid", gate)), projected(inner, width, hidden))
    return g.model({"y": g("Add", kept, projected(opened, hidden, width)), "new_keys": keys, "new_values": values})


def _detector_end() -> onnx.ModelProto:
    """The end of a detector on two scales: boxes from offsets and anchors, and scores of 20 classes."""
    channels, anchors, classes = 32, 3, 20
    numbers = 5 + classes
    scales = {"coarse": (10, 32.0), "fine": (20, 16.0)}
    g = _Network("detector_end", {name: (1, channels, side, side) for name, (side, _) in scales.items()})
    found = []
    for name, (side, step) in scales.items():
        raw = g("Reshape", g.convolution(name, channels, anchors * numbers), [1, anchors, numbers, side, side])
        shares = g("Sigmoid", g("Transpose", raw, perm=[0, 1, 3, 4, 2]))
        centre, size, rest = g.several("Split", 3, shares, [2, 2, numbers - 4], axis=4)
        grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1)[None, None].astype(np.float32) - 0.5
        placed = g("Mul", g("Add", g("Mul", centre, 2.0), grid), step)
        twice = g("Mul", size, 2.0)
        extents = np.abs(g.drawn(1, anchors, 1, 1, 2)) * np.float32(4 * step)
        sized = g("Mul", g("Mul", twice, twice), extents)
        found.append(g("Reshape", g("Concat", placed, sized, rest, axis=4), [1, anchors * side**2, numbers]))
    whole = g("Concat", *found, axis=1)
    centre, size, sure, own = g.several("Split", 4, whole, [2, 2, 1, classes], axis=2)
    half = g("Mul", size, 0.5)
    boxes = g("Concat", g("Sub", centre, half), g("Add", centre, half), axis=2)
    return g.model({"boxes": boxes, "scores": g("Transpose", g("Mul", own, sure), perm=[0, 2, 1])})


WILD: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "wild_window_attention": _window_attention,
    "wild_channel_shuffle": _channel_shuffle,
    "wild_depthwise_5x5": _depthwise_5x5,
    "wild_decoder_step": _decoder_step,
    "wild_detector_end": _detector_end,
}
"""The models by the names of their subjects."""
