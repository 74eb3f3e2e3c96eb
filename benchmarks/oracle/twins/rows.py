"""Reductions, norms, softmaxes and running sums as ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.oracle.twins.graph import Build, Graph


def _softmax(axis: int) -> Build:
    return lambda g: g("Softmax", "x", axis=axis)


def _norm(g: Graph) -> str:
    return g("ReduceL2", "a", [1, 2], keepdims=0)


def _sums(g: Graph) -> str:
    return g("ReduceSum", "x", [0], keepdims=0)


def _instance_norm(g: Graph) -> str:
    return g("LayerNormalization", "x", np.ones(g.shape("x")[1], np.float32), axis=-1, epsilon=1e-5)


def _modulated_norm(g: Graph) -> str:
    unit = g("LayerNormalization", "x", np.ones(g.shape("x")[2], np.float32), axis=-1, epsilon=1e-5)
    scaled = g("Mul", unit, g("Unsqueeze", g("Add", "scale", 1.0), [1]))
    return g("Add", scaled, g("Unsqueeze", "shift", [1]))


def _group_norm(g: Graph) -> str:
    gap = g("Sub", "x", g("ReduceMean", "x", [0, 2]))
    variance = g("ReduceMean", g("Mul", gap, gap), [0, 2])
    return g("Div", gap, g("Sqrt", g("Add", variance, 1e-5)))


def _column_variance(g: Graph) -> str:
    gap = g("Sub", "x", g("ReduceMean", "x", [0]))
    return g("ReduceMean", g("Mul", gap, gap), [0], keepdims=0)


def _masked_maximum(g: Graph) -> str:
    return g("ReduceMax", g("Where", g("Greater", "mask", 0.0), "x", -1e30), [1], keepdims=0)


def _between_extremes(g: Graph) -> str:
    low, high = g("ReduceMin", "x", [1]), g("ReduceMax", "x", [1])
    return g("Div", g("Sub", "x", low), g("Sub", high, low))


def _statistics(g: Graph) -> str:
    return g("ReduceMean", g("Mul", "x", "x"), [0, 2], keepdims=0)


def _squash(g: Graph) -> str:
    squares = g("ReduceSumSquare", "x", [1])
    return g("Div", g("Mul", "x", g("Sqrt", squares)), g("Add", squares, 1.0))


def _running(axis: int, *, later: bool = False) -> Build:
    return lambda g: g("CumSum", "x", np.array(axis, np.int64), reverse=int(later))


def _integral(g: Graph) -> str:
    axes = [np.array(axis, np.int64) for axis in (1, 0)]
    return g("CumSum", g("CumSum", "x", axes[0]), axes[1])


def _entropy(g: Graph) -> str:
    share = g("Div", g("Abs", "x"), g("ReduceL1", "x", [1]))
    logarithm = g("Log", g("Add", share, 1e-9))
    return g("Neg", g("ReduceSum", g("Mul", share, logarithm), [1], keepdims=0))


def _divergence(g: Graph) -> str:
    p, q = (g("LogSoftmax", name, axis=-1) for name in "xy")
    return g("ReduceSum", g("Mul", g("Exp", p), g("Sub", p, q)), [1], keepdims=0)


def _weighted_variance(g: Graph) -> str:
    weights = g("Mul", "w", "w")
    share = g("Div", weights, g("ReduceSum", weights, [0]))
    gap = g("Sub", "x", g("MatMul", share, "x"))
    return g("MatMul", share, g("Mul", gap, gap))


def _soft_argmax(g: Graph) -> str:
    maps, rows, columns = g.shape("x")
    share = g("Softmax", g("Reshape", "x", [maps, rows * columns]), axis=-1)
    return g("MatMul", share, np.indices((rows, columns)).reshape(2, -1).T.astype(np.float32).copy())


def _asian_option(g: Graph) -> str:
    walk = g("CumSum", "x", np.array(1, np.int64))
    price = g("Exp", g("Mul", g("Mul", walk, "spread"), 0.125))
    return g("Relu", g("Sub", g("ReduceMean", price, [1], keepdims=0), 1.0))


def _planar_arm(g: Graph) -> str:
    heading = g("CumSum", "angle", np.array(1, np.int64))
    parts = [g("Unsqueeze", g("MatMul", g(name, heading), "length"), [1]) for name in ("Cos", "Sin")]
    return g("Concat", *parts, axis=1)


def _mel(g: Graph) -> str:
    power = g("ReduceSumSquare", "x", [2], keepdims=0)
    return g("Log", g("Add", g("MatMul", power, g("Abs", "w")), 1e-6))


def _log_spectrum(g: Graph) -> str:
    frames, taps, step = g.case.output[0], g.shape("window")[0], 160
    places = np.arange(frames)[:, None] * step + np.arange(taps)
    framed = g("Mul", g("Gather", "x", places, axis=0), "window")
    squares = []
    for name in ("cosine", "sine"):
        part = g("MatMul", framed, name)
        squares.append(g("Mul", part, part))
    return g("Log", g("Add", g("Add", *squares), 1e-6))


ROWS: Mapping[str, Build] = {
    **dict.fromkeys((f"nrm_{number}_b1" for number in range(1, 5)), _norm),
    **dict.fromkeys((f"new_softmax_of_{length}" for length in (3, 7, 31)), _softmax(-1)),
    **dict.fromkeys((f"new_sums_of_{count}_columns" for count in (3, 7, 65)), _sums),
    "new_sum_of_a_prime": _sums,
    "new_odd_softmax": _softmax(-1),
    "new_middle_softmax": _softmax(1),
    "new_log_softmax_of_columns": lambda g: g("LogSoftmax", "x", axis=0),
    "new_short_layer_norm": lambda g: g("LayerNormalization", "x", "scale", "offset", axis=-1, epsilon=1e-5),
    "new_instance_norm": _instance_norm,
    "new_modulated_norm": _modulated_norm,
    "new_group_norm": _group_norm,
    "new_z_scores": lambda g: g("MeanVarianceNormalization", "x", axes=[0]),
    "new_column_variance": _column_variance,
    "new_masked_maximum": _masked_maximum,
    "new_log_sum_exp": lambda g: g("ReduceLogSumExp", "x", [1], keepdims=0),
    "new_between_extremes": _between_extremes,
    "new_statistics": _statistics,
    "new_squash": _squash,
    "new_running_sum": _running(1),
    "new_running_columns": _running(0),
    "new_later_sums": _running(1, later=True),
    "new_integral": _integral,
    "new_entropy": _entropy,
    "new_divergence": _divergence,
    "new_weighted_variance": _weighted_variance,
    "new_soft_argmax": _soft_argmax,
    "new_asian_option": _asian_option,
    "new_planar_arm": _planar_arm,
    "new_mel": _mel,
    "new_log_spectrum": _log_spectrum,
}
