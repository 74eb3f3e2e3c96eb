"""Distances, elementwise expressions and moved elements as ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from benchmarks.oracle.twins.graph import Build, Graph


def _gaps(g: Graph) -> str:
    """The difference of each row of the first input and each of the second."""
    first, second = g.case.inputs
    return g("Sub", g("Unsqueeze", first, [1]), second)


def _distances(reduction: str) -> Build:
    return lambda g: g(reduction, _gaps(g), [2], keepdims=0)


def _gaussian(g: Graph) -> str:
    return g("Exp", g("Mul", g("ReduceSumSquare", _gaps(g), [2], keepdims=0), -0.5))


def _nearest(g: Graph) -> str:
    return g("ReduceMin", g("ReduceSumSquare", _gaps(g), [2], keepdims=0), [1], keepdims=0)


def _of_sums(reduction: str) -> Build:
    return lambda g: g(reduction, g("Add", g("Unsqueeze", "a", [2]), "b"), [1], keepdims=0)


def _farthest(g: Graph) -> str:
    gaps = g("Sub", g("Unsqueeze", "a", [2]), g("Unsqueeze", "b", [1]))
    nearest = g("ReduceMin", g("ReduceSumSquare", gaps, [3], keepdims=0), [2], keepdims=0)
    return g("ReduceMax", nearest, [1], keepdims=0)


def _jaccard(g: Graph) -> str:
    left, right = g("Unsqueeze", g("Abs", "a"), [1]), g("Abs", "b")
    sums = [g("ReduceSum", g(name, left, right), [2], keepdims=0) for name in ("Min", "Max")]
    return g("Div", *sums)


def _hamming(g: Graph) -> str:
    one, other = (g("Greater", name, 0.0) for name in "ab")
    differ = g("Cast", g("Xor", g("Unsqueeze", one, [1]), other), to=TensorProto.FLOAT)
    return g("ReduceSum", differ, [2], keepdims=0)


def _turned(g: Graph, first: str, second: str, cosine: str, sine: str) -> tuple[str, str]:
    """Pairs turned by an angle: four products, a difference and a sum."""
    left = g("Sub", g("Mul", first, cosine), g("Mul", second, sine))
    return left, g("Add", g("Mul", second, cosine), g("Mul", first, sine))


def _rotary(g: Graph) -> str:
    first, second = g.several("Split", 2, "x", axis=3, num_outputs=2)
    cosine, sine = (g("Unsqueeze", name, [1, 3]) for name in ("cosine", "sine"))
    return g("Concat", *_turned(g, first, second, cosine, sine), axis=3)


def _rope_of_halves(g: Graph) -> str:
    first, second = g.several("Split", 2, "x", axis=2, num_outputs=2)
    return g("Concat", *_turned(g, first, second, "cosine", "sine"), axis=2)


def _rope_of_pairs(g: Graph) -> str:
    tokens, heads, width = g.shape("x")
    pairs = g("Reshape", "x", [tokens, heads, width // 2, 2])
    first, second = g.several("Split", 2, pairs, axis=3, num_outputs=2)
    cosine, sine = g.several("Split", 2, g("Unsqueeze", "table", [1]), axis=3, num_outputs=2)
    return g("Reshape", g("Concat", *_turned(g, first, second, cosine, sine), axis=3), g.shape("x"))


def _colours(g: Graph) -> str:
    return g("Clip", g("Gemm", "x", "w", "offset", transB=1), 0.0, 1.0)


def _blended(g: Graph) -> str:
    alpha = g("Unsqueeze", "alpha", [2])
    return g("Add", g("Mul", "front", alpha), g("Mul", "back", g("Sub", 1.0, alpha)))


def _gamma(g: Graph) -> str:
    power = g("Sub", g("Mul", g("Pow", g("Max", "x", 1e-6), 1 / 2.4), 1.055), 0.055)
    return g("Where", g("LessOrEqual", "x", 0.0031308), g("Mul", "x", 12.92), power)


def _cross_products(g: Graph) -> str:
    second, third = [1, 2, 0], [2, 0, 1]
    first = g("Mul", g("Gather", "a", second, axis=1), g("Gather", "b", third, axis=1))
    return g("Sub", first, g("Mul", g("Gather", "a", third, axis=1), g("Gather", "b", second, axis=1)))


def _quaternions(g: Graph) -> str:
    places = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
    signs = np.array([[1, -1, -1, -1], [1, 1, 1, -1], [1, -1, 1, 1], [1, 1, -1, 1]], np.float32)
    right = g("Mul", g("Gather", "b", places, axis=1), signs)
    return g("ReduceSum", g("Mul", g("Unsqueeze", "a", [1]), right), [2], keepdims=0)


def _rays(g: Graph) -> str:
    gap = g("Sub", "centre", g("Unsqueeze", "origin", [1]))
    along = g("Einsum", gap, "direction", equation="ijk,ik->ij")
    square = g("ReduceSumSquare", gap, [2], keepdims=0)
    return g("Add", g("Sub", g("Mul", along, along), square), g("Mul", "radius", "radius"))


def _limited_control(g: Graph) -> str:
    change = g("Mul", g("Sub", "x", "before"), 100.0)
    wanted = g("Add", g("Mul", "gain", "x"), g("Mul", "rate", change))
    most = g("Mul", g("Abs", "limit"), 50.0)
    return g("Min", g("Max", wanted, g("Neg", most)), most)


def _mixed_down(g: Graph) -> str:
    places = np.arange(g.shape("x")[0]) % g.shape("carrier")[0]
    return g("Mul", g("Unsqueeze", "x", [1]), g("Gather", "carrier", places, axis=0))


def _demodulated(g: Graph) -> str:
    last = g.shape("x")[0]
    now, after = g("Slice", "x", [0], [last - 1], [0]), g("Slice", "x", [1], [last], [0])
    crossed = g("Mul", now, g("Gather", after, [1, 0], axis=1))
    turned = g("MatMul", crossed, np.array([1, -1], np.float32))
    return g("Div", turned, g("Add", g("ReduceSumSquare", now, [1], keepdims=0), 1e-3))


def _lidar_points(g: Graph) -> str:
    local = g("Mul", g("Unsqueeze", "ranges", [2]), "direction")
    turned = g("Einsum", local, g("Slice", "pose", [0], [2], [2]), equation="sid,scd->sic")
    moved = g("Unsqueeze", g("Gather", "pose", np.array(2, np.int64), axis=2), [1])
    return g("Add", turned, moved)


def _gravity(g: Graph) -> str:
    gap = g("Sub", "place", g("Unsqueeze", "place", [1]))
    square = g("Add", g("ReduceSumSquare", gap, [2], keepdims=0), 0.01)
    weight = g("Div", "mass", g("Mul", square, g("Sqrt", square)))
    return g("Einsum", weight, gap, equation="ij,ijc->ic")


def _kernel_density(g: Graph) -> str:
    gap = g("Div", g("Sub", g("Unsqueeze", "place", [1]), "sample"), g("Add", g("Abs", "width"), 0.5))
    return g("ReduceMean", g("Exp", g("Mul", g("Mul", gap, gap), -0.5)), [1], keepdims=0)


def _soft_histogram(g: Graph) -> str:
    gap = g("Sub", g("Unsqueeze", "x", [1]), g("Unsqueeze", "centre", [1]))
    return g("ReduceMean", g("Exp", g("Mul", g("Mul", gap, gap), -2.0)), [2], keepdims=0)


def _weighted_histogram(g: Graph) -> str:
    bins = g.case.output[0]
    numbers = np.arange(bins, dtype=np.float32) - bins // 2
    own = g("Equal", g("Unsqueeze", g("Floor", g("Mul", "x", 8.0)), [1]), numbers)
    return g("MatMul", "weight", g("Cast", own, to=TensorProto.FLOAT))


def _numbered(g: Graph, scale: float, extent: int) -> str:
    """Whole numbers below `extent`, from floats."""
    whole = g("Cast", g("Floor", g("Mul", g("Abs", "number"), scale)), to=TensorProto.INT64)
    return g("Mod", whole, np.array(extent, np.int64))


def _smoothed_mesh(g: Graph) -> str:
    near = g("Gather", "x", _numbered(g, 4096.0, g.shape("x")[0]), axis=0)
    mean = g("ReduceMean", near, [1], keepdims=0)
    return g("Mul", g("Add", "x", mean), 0.5)


def _embedding_bag(g: Graph) -> str:
    taken = g("Gather", "table", _numbered(g, 256.0, g.shape("table")[0]), axis=0)
    return g("Einsum", taken, "weight", equation="bkd,bk->bd")


def _echoes(g: Graph) -> str:
    result, gains = "x", g.several("Split", 3, "gain", axis=0, num_outputs=3)
    for delay, gain in zip((441, 1009, 3000), gains, strict=True):
        result = g("Add", result, g("Mul", g("Pad", "x", [0, delay, 0, -delay]), gain))
    return result


def _upwind(g: Graph) -> str:
    columns = np.arange(g.shape("x")[1])
    left, right = (g("Gather", "x", np.roll(columns, by), axis=1) for by in (1, -1))
    forth = g("Mul", g("Relu", "wind"), g("Sub", "x", left))
    back = g("Mul", g("Min", "wind", 0.0), g("Sub", right, "x"))
    return g("Sub", "x", g("Mul", g("Add", forth, back), 0.2))


def _slopes(g: Graph) -> str:
    columns = g.shape("x")[1]
    padded = g("Pad", "x", [0, 1, 0, 1], mode="edge")
    gap = g("Sub", g("Slice", padded, [2], [columns + 2], [1]), g("Slice", padded, [0], [columns], [1]))
    share = np.full(columns, 0.5, np.float32)
    share[[0, -1]] = 1
    return g("Mul", gap, share)


def _relaxed(inside: str) -> Build:
    """The mean of four neighbours and a source where a mask says so: in all inner points, or in every other one."""

    def build(g: Graph) -> str:
        rows, columns = g.shape("x")
        padded = g("Pad", "x", [1] * 4)
        starts = ((0, 1), (2, 1), (1, 0), (1, 2))
        near = [g("Slice", padded, [i, j], [i + rows, j + columns], [0, 1]) for i, j in starts]
        total = g("Add" if inside == "red" else "Sub", g("Sum", *near), "source")
        mask = np.zeros((rows, columns), bool)
        mask[1:-1, 1:-1] = True
        if inside == "red":
            mask &= np.add.outer(np.arange(rows), np.arange(columns)) % 2 == 0
        return g("Where", mask, g("Mul", total, 0.25), "x")

    return build


def _circular(g: Graph) -> str:
    length = g.shape("y")[0]
    places = (np.arange(length)[:, None] + np.arange(length)) % length
    return g("MatMul", "x", g("Gather", "y", places, axis=0))


ELEMENTS: Mapping[str, Build] = {
    "new_squared_distances": _distances("ReduceSumSquare"),
    "new_l1_distances": _distances("ReduceL1"),
    "new_largest_gaps": lambda g: g("ReduceMax", g("Abs", _gaps(g)), [2], keepdims=0),
    "new_gaussian": _gaussian,
    "new_nearest_point": _nearest,
    "new_nearest_descriptor": _nearest,
    "new_max_plus": _of_sums("ReduceMax"),
    "new_min_plus": _of_sums("ReduceMin"),
    "new_log_product": _of_sums("ReduceLogSumExp"),
    "new_farthest": _farthest,
    "new_jaccard": _jaccard,
    "new_hamming": _hamming,
    "new_rotary": _rotary,
    "new_rope_of_halves": _rope_of_halves,
    "new_rope_of_pairs": _rope_of_pairs,
    "new_colours": _colours,
    "new_blended": _blended,
    "new_gamma": _gamma,
    "new_cross_products": _cross_products,
    "new_quaternions": _quaternions,
    "new_determinants": lambda g: g("Det", "x"),
    "new_rays": _rays,
    "new_limited_control": _limited_control,
    "new_mixed_down": _mixed_down,
    "new_demodulated": _demodulated,
    "new_lidar_points": _lidar_points,
    "new_gravity": _gravity,
    "new_kernel_density": _kernel_density,
    "new_soft_histogram": _soft_histogram,
    "new_weighted_histogram": _weighted_histogram,
    "new_smoothed_mesh": _smoothed_mesh,
    "new_embedding_bag": _embedding_bag,
    "new_echoes": _echoes,
    "new_upwind": _upwind,
    "new_slopes": _slopes,
    "new_relaxed": _relaxed("all"),
    "new_red_black": _relaxed("red"),
    "new_circular": _circular,
    "new_moved_channels": lambda g: g("Transpose", "x", perm=[0, 2, 3, 1]),
}
