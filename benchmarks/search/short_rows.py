"""Everyday expressions whose last axis, of the result or of what is reduced, has 3 to 31 elements.

The lengths of each kind are drawn by a seed. Vectors of 4 lanes divide some of them, those of 16 lanes only one. Like
`unforeseen.py`, each has a definition in double precision and no PyTorch side.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from tvm import te, tirx

from benchmarks.search.expression import EXP, Checked, Expression, in_double, multilinear
from benchmarks.search.held_out import softmax
from benchmarks.search.small_extents import layer_norm
from benchmarks.search.unforeseen import case, einsum, window
from edgetune.codegen.operations import polynomial_operations

SHORTEST, LONGEST = 3, 31
EACH = 3
"""Cases of each kind."""
_SEED = 20261129
SIGMOID = polynomial_operations("sigmoid")


def short_rows() -> Iterator[Expression]:
    """All 79 cases."""
    for kind, make in _KINDS.items():
        for length in lengths(kind):
            yield make(f"{kind}_{length}", length)
    yield _mixed_colours(97, 101)
    yield _normalised_colours(101, 97)
    yield _reversed_colours(101, 103)
    yield _opaque(97, 103)


def lengths(kind: str) -> list[int]:
    """The lengths of the rows of a kind, without repetition."""
    chosen = random.Random(f"{_SEED} {kind}")  # noqa: S311  a draw needs no secret
    return sorted(chosen.sample(range(SHORTEST, LONGEST + 1), EACH))


def has_short_rows(case: Expression) -> bool:
    """Whether the last axis of the result, or of the first input, has 3 to 31 elements."""
    rows = (case.output, next(iter(case.inputs.values())))
    return any(shape and SHORTEST <= shape[-1] <= LONGEST for shape in rows)


def _zero() -> Any:
    return tirx.const(0.0, "float32")


def _softmax(name: str, length: int) -> Expression:
    return softmax(name, (1501, length))


def _layer_norm(name: str, length: int) -> Expression:
    return layer_norm(name, 1501, length)


def _unit_rows(name: str, length: int) -> Expression:
    """Rows over the root of their mean square, with a gain for each column."""
    shape = (1999, length)

    def compute(x: te.Tensor, gain: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")
        square = te.compute(shape[:1], lambda r: te.sum(x[r, k] * x[r, k], axis=k), "square")
        return te.compute(
            shape, lambda r, c: x[r, c] * te.rsqrt(square[r] * (1 / length) + 1e-5) * gain[c], "unit_rows"
        )

    def reference(x: np.ndarray, gain: np.ndarray) -> Any:
        value = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * gain
        return value, np.abs(value)

    inputs = {"x": shape, "gain": (length,)}
    return case(name, inputs, shape, 5 * prod(shape), compute, in_double(reference))


def _small_products(name: str, length: int) -> Expression:
    return einsum(name, "bij,bjk->bik", b=301, i=length, j=length, k=length)


def _few_columns(name: str, length: int) -> Expression:
    return einsum(name, "ik,kn->in", i=301, k=96, n=length)


def _few_rows_of_weights(name: str, length: int) -> Expression:
    return einsum(name, "ik,nk->in", i=301, k=96, n=length)


def _small_depth(name: str, length: int) -> Expression:
    """A product whose terms are few, of rows that are short."""
    return einsum(name, "ik,kn->in", i=999, k=length, n=length)


def _outer_products(name: str, length: int) -> Expression:
    return einsum(name, "bi,bj->bij", b=301, i=17, j=length)


def _depthwise_last(name: str, length: int) -> Expression:
    """A 3x3 filter for each channel; channels are the last axis."""
    rows, columns = 29, 31
    shape = (rows, columns, length)

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
        return te.compute(shape, lambda r, s, c: te.sum(x[r + i, s + j, c] * w[i, j, c], axis=[i, j]), "depthwise")

    def reference(x: np.ndarray, w: np.ndarray) -> Any:
        return np.einsum("rscij,ijc->rsc", sliding_window_view(x, (3, 3), axis=(0, 1)), w)

    inputs = {"x": (rows + 2, columns + 2, length), "w": (3, 3, length)}
    return case(name, inputs, shape, 18 * prod(shape), compute, multilinear(reference))


def _depthwise_first(name: str, length: int) -> Expression:
    return window(name, "chwij,cij->chw", (48, length + 2, length + 2), (48, 3, 3))


def _convolution_last(name: str, length: int) -> Expression:
    """A 3x3 convolution of 8 channels; the results of a pixel lie in a row."""
    rows, columns, inner = 17, 19, 8
    shape = (rows, columns, length)

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        i, j, k = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j"), te.reduce_axis((0, inner), "k")
        return te.compute(
            shape, lambda r, s, c: te.sum(x[r + i, s + j, k] * w[i, j, k, c], axis=[i, j, k]), "convolution"
        )

    def reference(x: np.ndarray, w: np.ndarray) -> Any:
        return np.einsum("rskij,ijkc->rsc", sliding_window_view(x, (3, 3), axis=(0, 1)), w, optimize=True)

    inputs = {"x": (rows + 2, columns + 2, inner), "w": (3, 3, inner, length)}
    return case(name, inputs, shape, 18 * inner * prod(shape), compute, multilinear(reference))


def _largest_of_four(name: str, length: int) -> Expression:
    """Pooling of 2x2 pixels with channels last."""
    shape = (30, 31, length)

    def compute(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, 2), "i"), te.reduce_axis((0, 2), "j")
        return te.compute(shape, lambda r, s, c: te.max(x[2 * r + i, 2 * s + j, c], axis=[i, j]), "pooled")

    def reference(x: np.ndarray) -> Any:
        value = x.reshape(30, 2, 31, 2, length).max((1, 3))
        return value, np.abs(value) + 1

    return case(name, {"x": (60, 62, length)}, shape, 4 * prod(shape), compute, in_double(reference))


def _means_first(name: str, length: int) -> Expression:
    """Means of 3x3 pixels with a stride of 2; the rows of an image are short."""
    shape, side = (32, length, length), 2 * length + 1

    def compute(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
        total = te.compute(shape, lambda c, r, s: te.sum(x[c, 2 * r + i, 2 * s + j], axis=[i, j]), "total")
        return te.compute(shape, lambda c, r, s: total[c, r, s] * (1 / 9), "means")

    def reference(x: np.ndarray) -> Any:
        return sliding_window_view(x, (3, 3), axis=(1, 2))[:, ::2, ::2].mean((-2, -1))

    return case(name, {"x": (32, side, side)}, shape, 10 * prod(shape), compute, multilinear(reference))


def _attention_weights(name: str, length: int) -> Expression:
    """The softmax of the products of queries and a few keys."""
    heads, tokens, width = 4, 61, 32
    shape = (heads, tokens, length)

    def compute(q: te.Tensor, k: te.Tensor) -> te.Tensor:
        d, j, n = (te.reduce_axis((0, extent), name) for extent, name in ((width, "d"), (length, "j"), (length, "n")))
        score = te.compute(shape, lambda h, t, s: te.sum(q[h, t, d] * k[h, s, d], axis=d), "score")
        most = te.compute(shape[:2], lambda h, t: te.max(score[h, t, j], axis=j), "most")
        power = te.compute(shape, lambda h, t, s: te.exp((score[h, t, s] - most[h, t]) * width**-0.5), "power")
        total = te.compute(shape[:2], lambda h, t: te.sum(power[h, t, n], axis=n), "total")
        return te.compute(shape, lambda h, t, s: power[h, t, s] / total[h, t], "weights")

    def reference(q: np.ndarray, k: np.ndarray) -> Any:
        score, terms = (a @ b.swapaxes(1, 2) * width**-0.5 for a, b in ((q, k), (np.abs(q), np.abs(k))))
        power = np.exp(score - score.max(-1, keepdims=True))
        value = power / power.sum(-1, keepdims=True)
        return value, value * (1 + terms)

    inputs = {"q": (heads, tokens, width), "k": (heads, length, width)}
    operations = prod(shape) * (2 * width + EXP + 4)
    return case(name, inputs, shape, operations, compute, in_double(reference))


def _mixed_values(name: str, length: int) -> Expression:
    """Values that are short rows, weighted by a softmax over a few keys."""
    heads, tokens, keys = 8, 61, 16
    shape, square = (heads, tokens, length), (heads, tokens, keys)

    def compute(score: te.Tensor, v: te.Tensor) -> te.Tensor:
        j, n, o = (te.reduce_axis((0, keys), name) for name in "jno")
        most = te.compute(shape[:2], lambda h, t: te.max(score[h, t, j], axis=j), "most")
        power = te.compute(square, lambda h, t, s: te.exp(score[h, t, s] - most[h, t]), "power")
        total = te.compute(shape[:2], lambda h, t: te.sum(power[h, t, n], axis=n), "total")
        share = te.compute(square, lambda h, t, s: power[h, t, s] / total[h, t], "share")
        return te.compute(shape, lambda h, t, c: te.sum(share[h, t, o] * v[h, o, c], axis=o), "mixed")

    def reference(score: np.ndarray, v: np.ndarray) -> Any:
        power = np.exp(score - score.max(-1, keepdims=True))
        share = power / power.sum(-1, keepdims=True)
        return share @ v, share @ np.abs(v)

    inputs = {"score": square, "v": (heads, keys, length)}
    operations = prod(square) * (2 * length + EXP + 4)
    return case(name, inputs, shape, operations, compute, in_double(reference))


def _turned(name: str, length: int) -> Expression:
    """Planes of channels as channels last."""
    shape = (4, 1001, length)

    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda n, p, c: x[n, c, p], "turned")

    def reference(x: np.ndarray) -> Any:
        return x.transpose(0, 2, 1)

    return case(name, {"x": (4, length, 1001)}, shape, 0, compute, multilinear(reference))


def _swapped(name: str, length: int) -> Expression:
    """Heads and tokens exchanged, and the rows as they are."""
    shape = (127, 8, length)

    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda t, h, c: x[h, t, c], "swapped")

    def reference(x: np.ndarray) -> Any:
        return x.transpose(1, 0, 2)

    return case(name, {"x": (8, 127, length)}, shape, 0, compute, multilinear(reference))


def _taken_rows(name: str, length: int) -> Expression:
    """Rows of a table that numbers name."""
    count, entries = 2003, 400

    def compute(table: te.Tensor, number: te.Tensor) -> te.Tensor:
        def value(r: Any, c: Any) -> Any:
            return table[te.floor(te.abs(number[r]) * 256.0).astype("int32") % entries, c]

        return te.compute((count, length), value, "taken")

    def reference(table: np.ndarray, number: np.ndarray) -> Any:
        value = table[np.floor(np.abs(number) * 256).astype(int) % entries].astype(np.float64)
        return value, np.abs(value) + 1

    inputs = {"table": (entries, length), "number": (count,)}
    return case(name, inputs, (count, length), 0, compute, reference)


def _scaled(name: str, length: int) -> Expression:
    """Channels last, scaled and moved by the channel, and what is positive of them."""
    shape = (47, 49, length)

    def compute(x: te.Tensor, scale: te.Tensor, offset: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda r, s, c: te.max(x[r, s, c] * scale[c] + offset[c], _zero()), "scaled")

    def reference(x: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> Any:
        return np.maximum(x * scale + offset, 0), np.abs(x * scale) + np.abs(offset)

    inputs = {"x": shape, "scale": (length,), "offset": (length,)}
    return case(name, inputs, shape, 3 * prod(shape), compute, in_double(reference))


def _gated_rows(name: str, length: int) -> Expression:
    """Rows times a gate of their own, with an offset for each column."""
    shape = (1999, length)

    def compute(x: te.Tensor, gate: te.Tensor, offset: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda r, c: te.sigmoid(x[r, c] + offset[c]) * gate[r], "gated")

    def reference(x: np.ndarray, gate: np.ndarray, offset: np.ndarray) -> Any:
        value = gate[:, None] / (1 + np.exp(-(x + offset)))
        return value, np.abs(value) * (1 + np.abs(x) + np.abs(offset))

    inputs = {"x": shape, "gate": (shape[0],), "offset": (length,)}
    return case(name, inputs, shape, (SIGMOID + 2) * prod(shape), compute, in_double(reference))


def _sums_of_rows(name: str, length: int) -> Expression:
    """The sum of each row."""
    rows = 4001

    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")
        return te.compute((rows,), lambda r: te.sum(x[r, k], axis=k), "sums")

    def reference(x: np.ndarray) -> Any:
        return x.sum(1)

    return case(name, {"x": (rows, length)}, (rows,), rows * length, compute, multilinear(reference))


def _largest_of_rows(name: str, length: int) -> Expression:
    """The largest element of each row."""
    rows = 4001

    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")
        return te.compute((rows,), lambda r: te.max(x[r, k], axis=k), "largest")

    def reference(x: np.ndarray) -> Any:
        return x.max(1), np.abs(x.max(1)) + 1

    return case(name, {"x": (rows, length)}, (rows,), rows * length, compute, in_double(reference))


def _means_between(name: str, length: int) -> Expression:
    """Means over the middle one of three axes."""
    batch, count = 40, 50

    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, count), "k")
        total = te.compute((batch, length), lambda b, c: te.sum(x[b, k, c], axis=k), "total")
        return te.compute((batch, length), lambda b, c: total[b, c] * (1 / count), "means")

    def reference(x: np.ndarray) -> Any:
        return x.mean(1)

    inputs = {"x": (batch, count, length)}
    return case(name, inputs, (batch, length), batch * count * length, compute, multilinear(reference))


def _twice_as_large(name: str, length: int) -> Expression:
    """Each pixel four times, with channels last."""
    shape = (46, 50, length)

    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda r, s, c: x[r // 2, s // 2, c], "larger")

    def reference(x: np.ndarray) -> Any:
        return x.repeat(2, 0).repeat(2, 1)

    return case(name, {"x": (23, 25, length)}, shape, 0, compute, multilinear(reference))


def _running_rows(name: str, length: int) -> Expression:
    """Sums of the elements of a row up to each one."""
    shape = (999, length)

    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")
        return te.compute(shape, lambda r, c: te.sum(tirx.if_then_else(k <= c, x[r, k], _zero()), axis=k), "running")

    def reference(x: np.ndarray) -> Any:
        return np.cumsum(x, 1)

    operations = prod(shape) * (length + 1) // 2
    return case(name, {"x": shape}, shape, operations, compute, multilinear(reference))


_KINDS: Mapping[str, Callable[[str, int], Expression]] = {
    "row_softmax": _softmax,
    "row_layer_norm": _layer_norm,
    "row_unit": _unit_rows,
    "row_products": _small_products,
    "row_columns": _few_columns,
    "row_weights": _few_rows_of_weights,
    "row_small_depth": _small_depth,
    "row_outer": _outer_products,
    "row_depthwise_last": _depthwise_last,
    "row_depthwise_first": _depthwise_first,
    "row_convolution": _convolution_last,
    "row_pooled": _largest_of_four,
    "row_means": _means_first,
    "row_attention": _attention_weights,
    "row_values": _mixed_values,
    "row_turned": _turned,
    "row_swapped": _swapped,
    "row_taken": _taken_rows,
    "row_scaled": _scaled,
    "row_gated": _gated_rows,
    "row_sums": _sums_of_rows,
    "row_largest": _largest_of_rows,
    "row_between": _means_between,
    "row_larger": _twice_as_large,
    "row_running": _running_rows,
}


def _mixed_colours(rows: int, columns: int) -> Expression:
    """Interleaved colours in another space."""
    shape = (rows, columns, 3)

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 3), "k")
        return te.compute(shape, lambda r, s, c: te.sum(x[r, s, k] * w[k, c], axis=k), "mixed")

    def reference(x: np.ndarray, w: np.ndarray) -> Any:
        return x @ w

    return case("row_colours", {"x": shape, "w": (3, 3)}, shape, 6 * prod(shape), compute, multilinear(reference))


def _normalised_colours(rows: int, columns: int) -> Expression:
    """Colours less the mean of each, over its deviation, as networks want them."""
    shape = (rows, columns, 3)

    def compute(x: te.Tensor, mean: te.Tensor, deviation: te.Tensor) -> te.Tensor:
        def value(r: Any, s: Any, c: Any) -> Any:
            return (x[r, s, c] * (1 / 255) - mean[c]) / (te.abs(deviation[c]) + 0.5)

        return te.compute(shape, value, "normalised")

    def reference(x: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> Checked:
        scale = np.abs(deviation) + 0.5
        return (x / 255 - mean) / scale, (np.abs(x) / 255 + np.abs(mean)) / scale

    inputs = {"x": shape, "mean": (3,), "deviation": (3,)}
    return case("row_normalised_colours", inputs, shape, 5 * prod(shape), compute, in_double(reference))


def _reversed_colours(rows: int, columns: int) -> Expression:
    """Blue, green and red as red, green and blue, from right to left."""
    shape = (rows, columns, 3)

    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda r, s, c: x[r, columns - 1 - s, 2 - c], "reversed")

    def reference(x: np.ndarray) -> Any:
        return x[:, ::-1, ::-1]

    return case("row_reversed_colours", {"x": shape}, shape, 0, compute, multilinear(reference))


def _opaque(rows: int, columns: int) -> Expression:
    """Colours with an opacity over one background: four elements of a pixel become three."""
    shape = (rows, columns, 3)

    def compute(x: te.Tensor, back: te.Tensor) -> te.Tensor:
        def value(r: Any, s: Any, c: Any) -> Any:
            return x[r, s, c] * x[r, s, 3] + back[c] * (1.0 - x[r, s, 3])

        return te.compute(shape, value, "opaque")

    def reference(x: np.ndarray, back: np.ndarray) -> Checked:
        alpha = x[..., 3:]
        value = x[..., :3] * alpha + back * (1 - alpha)
        return value, np.abs(x[..., :3] * alpha) + np.abs(back) * (1 + np.abs(alpha))

    inputs = {"x": (rows, columns, 4), "back": (3,)}
    return case("row_opaque_colours", inputs, shape, 4 * prod(shape), compute, in_double(reference))
