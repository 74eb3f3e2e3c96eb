"""Everyday expressions of transformers, recent layers and quantised models, written without a look at any rule."""

from __future__ import annotations

from collections.abc import Iterator
from math import erf
from typing import Any

import numpy as np
from tvm import te, tirx

from benchmarks.search.expression import EXP, Checked, Expression, in_double
from benchmarks.search.unforeseen import case
from edgetune.codegen.operations import polynomial_operations

NEVER = -1e30
ERF, SIGMOID, TANH = (polynomial_operations(name) for name in ("erf", "sigmoid", "tanh"))


def everyday_layers() -> Iterator[Expression]:
    """All 14 cases."""
    yield _rope_of_halves(8, 127, 64)
    yield _rope_of_pairs(200, 4, 64)
    yield _rms_projected(31, 512, 256)
    yield _swiglu(31, 200, 301)
    yield _alibi(4, 127, 32)
    yield _sliding_attention(4, 200, 32, 31)
    yield _mixture(31, 8, 64, 65)
    yield _state_space(100, 48)
    yield _causal_features(4, 100, 24, 31)
    yield _gated_unit(7, 100, 128)
    yield _modulated_norm(4, 100, 192)
    yield _gelu_block(16, 96, 384)
    yield _quantised_product(31, 256, 100)
    yield _four_bits(7, 256, 500, 32)


def _rope_of_halves(heads: int, tokens: int, width: int) -> Expression:
    """Rotary embedding that turns a head's first half with its second half."""
    shape, half = (heads, tokens, width), width // 2

    def compute(x: te.Tensor, cosine: te.Tensor, sine: te.Tensor) -> te.Tensor:
        def value(h: Any, t: Any, d: Any) -> Any:
            other = tirx.if_then_else(d < half, x[h, t, d + half] * -1.0, x[h, t, d - half])
            return x[h, t, d] * cosine[t, d % half] + other * sine[t, d % half]

        return te.compute(shape, value, "turned")

    def turned(x: np.ndarray, cosine: np.ndarray, sine: np.ndarray, sign: float) -> Any:
        first, second = x[..., :half], x[..., half:]
        return np.concatenate([first * cosine + sign * second * sine, second * cosine + first * sine], -1)

    def reference(x: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> Checked:
        return turned(x, cosine, sine, -1), turned(np.abs(x), np.abs(cosine), np.abs(sine), 1)

    inputs = {"x": shape, "cosine": (tokens, half), "sine": (tokens, half)}
    return case("rope_of_halves", inputs, shape, 3 * heads * tokens * width, compute, in_double(reference))


def _rope_of_pairs(tokens: int, heads: int, width: int) -> Expression:
    """Rotary embedding that turns neighbouring elements, from a table of interleaved cosines and sines."""
    shape = (tokens, heads, width)

    def compute(x: te.Tensor, table: te.Tensor) -> te.Tensor:
        def value(t: Any, h: Any, d: Any) -> Any:
            pair = d // 2
            other = tirx.Select(d % 2 == 0, x[t, h, pair * 2 + 1] * -1.0, x[t, h, pair * 2])
            return x[t, h, d] * table[t, pair, 0] + other * table[t, pair, 1]

        return te.compute(shape, value, "turned")

    def turned(x: np.ndarray, table: np.ndarray, sign: float) -> Any:
        first, second = x[..., ::2], x[..., 1::2]
        cosine, sine = table[:, None, :, 0], table[:, None, :, 1]
        return np.stack([first * cosine + sign * second * sine, second * cosine + first * sine], -1).reshape(shape)

    def reference(x: np.ndarray, table: np.ndarray) -> Checked:
        return turned(x, table, -1), turned(np.abs(x), np.abs(table), 1)

    inputs = {"x": shape, "table": (tokens, width // 2, 2)}
    return case("rope_of_pairs", inputs, shape, 3 * tokens * heads * width, compute, in_double(reference))


def _rms_projected(rows: int, depth: int, width: int) -> Expression:
    """A product of rows whose root mean square is one, with a gain for each column."""

    def compute(x: te.Tensor, gain: te.Tensor, w: te.Tensor) -> te.Tensor:
        j, k = te.reduce_axis((0, depth), "j"), te.reduce_axis((0, depth), "k")
        square = te.compute((rows,), lambda i: te.sum(x[i, j] * x[i, j], axis=j), "square")
        scale = te.compute((rows,), lambda i: te.rsqrt(square[i] / float(depth) + 1e-5), "scale")
        unit = te.compute((rows, depth), lambda i, d: x[i, d] * scale[i] * gain[d], "unit")
        return te.compute((rows, width), lambda i, n: te.sum(unit[i, k] * w[k, n], axis=k), "projected")

    def reference(x: np.ndarray, gain: np.ndarray, w: np.ndarray) -> Checked:
        unit = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * gain
        return unit @ w, np.abs(unit) @ np.abs(w)

    inputs = {"x": (rows, depth), "gain": (depth,), "w": (depth, width)}
    operations = 2 * rows * depth * width + 4 * rows * depth
    return case("rms_projected", inputs, (rows, width), operations, compute, in_double(reference))


def _swiglu(rows: int, depth: int, width: int) -> Expression:
    """Two products of the same rows, one of which opens and closes the other."""

    def compute(x: te.Tensor, gate: te.Tensor, up: te.Tensor) -> te.Tensor:
        def product(w: te.Tensor, name: str) -> te.Tensor:
            k = te.reduce_axis((0, depth), "k")
            return te.compute((rows, width), lambda i, n: te.sum(x[i, k] * w[k, n], axis=k), name)

        gates, values = product(gate, "gates"), product(up, "values")
        return te.compute((rows, width), lambda i, n: gates[i, n] * te.sigmoid(gates[i, n]) * values[i, n], "swiglu")

    def reference(x: np.ndarray, gate: np.ndarray, up: np.ndarray) -> Checked:
        gates, terms = x @ gate, np.abs(x) @ np.abs(gate)
        opened = gates / (1 + np.exp(-gates))
        return opened * (x @ up), 2 * terms * (np.abs(x) @ np.abs(up))

    inputs = {"x": (rows, depth), "gate": (depth, width), "up": (depth, width)}
    operations = rows * width * (4 * depth + SIGMOID + 2)
    return case("swiglu", inputs, (rows, width), operations, compute, in_double(reference))


def _attended(scores: te.Tensor, values: te.Tensor, place: Any, seen: int) -> te.Tensor:
    """Values weighted by the softmax of `scores`; `place(i, j)` is where the j-th value of row i is."""
    heads, tokens, _ = scores.shape
    j, m, n = (te.reduce_axis((0, seen), name) for name in "jmn")
    most = te.compute((heads, tokens), lambda h, i: te.max(scores[h, i, j], axis=j), "most")
    power = te.compute(scores.shape, lambda h, i, s: te.exp(scores[h, i, s] - most[h, i]), "power")
    total = te.compute((heads, tokens), lambda h, i: te.sum(power[h, i, m], axis=m), "total")
    mixed = te.compute(
        (heads, tokens, values.shape[2]),
        lambda h, i, d: te.sum(power[h, i, n] * values[h, place(i, n), d], axis=n),
        "mixed",
    )
    return te.compute(mixed.shape, lambda h, i, d: mixed[h, i, d] / total[h, i], "attended")


def _softmax(scores: np.ndarray) -> Any:
    power = np.exp(scores - scores.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def _alibi(heads: int, tokens: int, width: int) -> Expression:
    """Attention to the past, where each head forgets at its own rate."""
    shape = (heads, tokens, width)

    def compute(q: te.Tensor, k: te.Tensor, v: te.Tensor, slope: te.Tensor) -> te.Tensor:
        d = te.reduce_axis((0, width), "d")
        square = (heads, tokens, tokens)
        dots = te.compute(square, lambda h, i, j: te.sum(q[h, i, d] * k[h, j, d], axis=d), "dots")

        def score(h: Any, i: Any, j: Any) -> Any:
            near = dots[h, i, j] * 0.125 - te.abs(slope[h]) * (i - j).astype("float32")
            return tirx.Select(j <= i, near, tirx.const(NEVER, "float32"))

        return _attended(te.compute(square, score, "scores"), v, lambda _, j: j, tokens)

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, slope: np.ndarray) -> Checked:
        gap = np.arange(tokens)[:, None] - np.arange(tokens)
        scores = q @ np.swapaxes(k, 1, 2) / 8 - np.abs(slope)[:, None, None] * gap
        weight = _softmax(np.where(gap >= 0, scores, NEVER))
        return weight @ v, weight @ np.abs(v) + 1

    inputs = {"q": shape, "k": shape, "v": shape, "slope": (heads,)}
    operations = heads * tokens * (tokens + 1) // 2 * (4 * width + EXP + 6)
    return case("alibi", inputs, shape, operations, compute, in_double(reference))


def _sliding_attention(heads: int, tokens: int, width: int, seen: int) -> Expression:
    """Attention to the last few tokens."""
    shape = (heads, tokens, width)

    def compute(q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        d = te.reduce_axis((0, width), "d")
        band = (heads, tokens, seen)
        dots = te.compute(band, lambda h, i, j: te.sum(q[h, i, d] * k[h, te.max(i - j, 0), d], axis=d), "dots")
        never = tirx.const(NEVER, "float32")
        scores = te.compute(band, lambda h, i, j: tirx.Select(j <= i, dots[h, i, j] * 0.125, never), "scores")
        return _attended(scores, v, lambda i, j: te.max(i - j, 0), seen)

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Checked:
        gap = np.arange(tokens)[:, None] - np.arange(tokens)
        weight = _softmax(np.where((gap >= 0) & (gap < seen), q @ np.swapaxes(k, 1, 2) / 8, NEVER))
        return weight @ v, weight @ np.abs(v) + 1

    inputs = {"q": shape, "k": shape, "v": shape}
    operations = heads * tokens * seen * (4 * width + EXP + 4)
    return case("sliding_attention", inputs, shape, operations, compute, in_double(reference))


def _mixture(tokens: int, experts: int, depth: int, width: int) -> Expression:
    """The results of all experts, weighted by the softmax of a small product."""

    def compute(x: te.Tensor, gate: te.Tensor, w: te.Tensor) -> te.Tensor:
        k, m = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, depth), "m")
        j, e, n = (te.reduce_axis((0, experts), name) for name in "jen")
        logits = te.compute((tokens, experts), lambda t, o: te.sum(x[t, k] * gate[k, o], axis=k), "logits")
        most = te.compute((tokens,), lambda t: te.max(logits[t, j], axis=j), "most")
        power = te.compute((tokens, experts), lambda t, o: te.exp(logits[t, o] - most[t]), "power")
        total = te.compute((tokens,), lambda t: te.sum(power[t, n], axis=n), "total")
        results = te.compute((tokens, experts, width), lambda t, o, d: te.sum(x[t, m] * w[o, m, d], axis=m), "results")
        share = te.compute((tokens, experts), lambda t, o: power[t, o] / total[t], "share")
        return te.compute((tokens, width), lambda t, d: te.sum(share[t, e] * results[t, e, d], axis=e), "mixture")

    def reference(x: np.ndarray, gate: np.ndarray, w: np.ndarray) -> Checked:
        weight, lost = _softmax(x @ gate), np.abs(x) @ np.abs(gate)
        terms = np.einsum("te,tk,ekd->td", weight * (1 + lost), np.abs(x), np.abs(w), optimize=True)
        return np.einsum("te,tk,ekd->td", weight, x, w, optimize=True), terms

    inputs = {"x": (tokens, depth), "gate": (depth, experts), "w": (experts, depth, width)}
    operations = tokens * experts * (2 * depth * (width + 1) + EXP + 3 + 2 * width)
    return case("mixture", inputs, (tokens, width), operations, compute, in_double(reference))


def _state_space(steps: int, channels: int) -> Expression:
    """What a decaying state holds after each step, in closed form."""

    def compute(x: te.Tensor, rate: te.Tensor) -> te.Tensor:
        s = te.reduce_axis((0, steps), "s")

        def value(t: Any, c: Any) -> Any:
            kept = te.exp((s - t).astype("float32") * te.abs(rate[c]))
            return te.sum(tirx.if_then_else(s <= t, kept * x[s, c], tirx.const(0.0, "float32")), axis=s)

        return te.compute((steps, channels), value, "states")

    def reference(x: np.ndarray, rate: np.ndarray) -> Checked:
        gap = np.maximum(np.arange(steps)[:, None] - np.arange(steps), 0)[..., None]
        kept = np.exp(-gap * np.abs(rate)) * np.tri(steps)[..., None]
        return np.einsum("tsc,sc->tc", kept, x), np.einsum("tsc,sc->tc", kept, np.abs(x))

    shape = (steps, channels)
    operations = steps * (steps + 1) // 2 * channels * (EXP + 3)
    return case("state_space", {"x": shape, "rate": (channels,)}, shape, operations, compute, in_double(reference))


def _causal_features(heads: int, tokens: int, depth: int, width: int) -> Expression:
    """Linear attention to the past, with exponential linear units plus one as features."""

    def compute(q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        def positive(x: te.Tensor, name: str) -> te.Tensor:
            return te.compute(x.shape, lambda *p: tirx.Select(x(*p) > 0.0, x(*p) + 1.0, te.exp(x(*p))), name)

        queries, keys = positive(q, "queries"), positive(k, "keys")
        d = te.reduce_axis((0, depth), "d")
        j, n = te.reduce_axis((0, tokens), "j"), te.reduce_axis((0, tokens), "n")
        square, zero = (heads, tokens, tokens), tirx.const(0.0, "float32")
        dots = te.compute(square, lambda h, i, m: te.sum(queries[h, i, d] * keys[h, m, d], axis=d), "dots")
        weight = te.compute(square, lambda h, i, m: tirx.Select(m <= i, dots[h, i, m], zero), "weight")
        total = te.compute((heads, tokens), lambda h, i: te.sum(weight[h, i, n], axis=n), "total")
        mixed = te.compute(v.shape, lambda h, i, c: te.sum(weight[h, i, j] * v[h, j, c], axis=j), "mixed")
        return te.compute(v.shape, lambda h, i, c: mixed[h, i, c] / total[h, i], "attended")

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Checked:
        queries, keys = (np.where(x > 0, x + 1, np.exp(x)) for x in (q, k))
        weight = np.tril(queries @ np.swapaxes(keys, 1, 2))
        weight /= weight.sum(-1, keepdims=True)
        return weight @ v, weight @ np.abs(v)

    inputs = {"q": (heads, tokens, depth), "k": (heads, tokens, depth), "v": (heads, tokens, width)}
    operations = heads * tokens * ((tokens + 1) // 2 * (2 * depth + 2 * width + 1) + 2 * depth * (EXP + 1))
    return case("causal_features", inputs, (heads, tokens, width), operations, compute, in_double(reference))


def _gated_unit(batch: int, depth: int, width: int) -> Expression:
    """A step of a gated recurrent unit."""

    def compute(x: te.Tensor, h: te.Tensor, w: te.Tensor, u: te.Tensor) -> te.Tensor:
        k, m = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, width), "m")
        shape = (3, batch, width)
        seen = te.compute(shape, lambda g, b, n: te.sum(x[b, k] * w[g, k, n], axis=k), "seen")
        kept = te.compute(shape, lambda g, b, n: te.sum(h[b, m] * u[g, m, n], axis=m), "kept")

        def value(b: Any, n: Any) -> Any:
            reset, update = (te.sigmoid((seen[g, b, n] + kept[g, b, n]) * 0.1) for g in range(2))
            new = te.tanh((seen[2, b, n] + reset * kept[2, b, n]) * 0.1)
            return (1.0 - update) * new + update * h[b, n]

        return te.compute((batch, width), value, "unit")

    def reference(x: np.ndarray, h: np.ndarray, w: np.ndarray, u: np.ndarray) -> Checked:
        seen, kept = x @ w, h @ u
        reset, update = (1 / (1 + np.exp(-(seen[g] + kept[g]) * 0.1)) for g in range(2))
        new = np.tanh((seen[2] + reset * kept[2]) * 0.1)
        terms = (np.abs(x) @ np.abs(w) + np.abs(h) @ np.abs(u)).sum(0) * 0.1
        return (1 - update) * new + update * h, np.abs(new) + np.abs(h) + terms

    inputs = {"x": (batch, depth), "h": (batch, width), "w": (3, depth, width), "u": (3, width, width)}
    operations = batch * width * (6 * (depth + width) + 2 * SIGMOID + TANH + 11)
    return case("gated_unit", inputs, (batch, width), operations, compute, in_double(reference))


def _modulated_norm(batch: int, tokens: int, width: int) -> Expression:
    """Rows of mean zero and variance one, scaled and shifted for each member of the batch."""

    def compute(x: te.Tensor, scale: te.Tensor, shift: te.Tensor) -> te.Tensor:
        j, k = te.reduce_axis((0, width), "j"), te.reduce_axis((0, width), "k")
        rows = (batch, tokens)
        mean = te.compute(rows, lambda b, t: te.sum(x[b, t, j] / float(width), axis=j), "mean")

        def square(b: Any, t: Any) -> Any:
            gap = x[b, t, k] - mean[b, t]
            return te.sum(gap * gap / float(width), axis=k)

        variance = te.compute(rows, square, "variance")

        def value(b: Any, t: Any, c: Any) -> Any:
            unit = (x[b, t, c] - mean[b, t]) / te.sqrt(variance[b, t] + 1e-5)
            return unit * (scale[b, c] + 1.0) + shift[b, c]

        return te.compute((batch, tokens, width), value, "modulated")

    def reference(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> Checked:
        deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        unit, scale, shift = (x - x.mean(-1, keepdims=True)) / deviation, scale[:, None], shift[:, None]
        terms = (np.abs(x) / deviation + 1) * (np.abs(scale) + 1) + np.abs(shift)
        return unit * (scale + 1) + shift, terms

    shape = (batch, tokens, width)
    inputs = {"x": shape, "scale": (batch, width), "shift": (batch, width)}
    return case("modulated_norm", inputs, shape, 9 * batch * tokens * width, compute, in_double(reference))


def _gelu_block(rows: int, width: int, hidden: int) -> Expression:
    """Two products with a Gaussian error unit between them, added to what they began with."""

    def compute(x: te.Tensor, w: te.Tensor, u: te.Tensor) -> te.Tensor:
        k, m = te.reduce_axis((0, width), "k"), te.reduce_axis((0, hidden), "m")
        wide = te.compute((rows, hidden), lambda i, n: te.sum(x[i, k] * w[k, n], axis=k), "wide")

        def unit(i: Any, n: Any) -> Any:
            return wide[i, n] * 0.5 * (te.erf(wide[i, n] * 0.70710678) + 1.0)

        units = te.compute((rows, hidden), unit, "units")
        narrow = te.compute((rows, width), lambda i, n: te.sum(units[i, m] * u[m, n], axis=m), "narrow")
        return te.compute((rows, width), lambda i, n: x[i, n] + narrow[i, n], "block")

    def reference(x: np.ndarray, w: np.ndarray, u: np.ndarray) -> Checked:
        wide = x @ w
        units = wide * 0.5 * (1 + np.vectorize(erf)(wide * np.sqrt(0.5)))
        return x + units @ u, np.abs(x) + (np.abs(x) @ np.abs(w)) @ np.abs(u)

    inputs = {"x": (rows, width), "w": (width, hidden), "u": (hidden, width)}
    operations = rows * (hidden * (4 * width + ERF + 4) + width)
    return case("gelu_block", inputs, (rows, width), operations, compute, in_double(reference))


def _quantised_product(rows: int, depth: int, width: int) -> Expression:
    """A product of rows that are rounded to eight bits at a step that is known only at run time."""

    def compute(x: te.Tensor, w: te.Tensor, step: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, depth), "k")
        low, high = tirx.const(-127.0, "float32"), tirx.const(127.0, "float32")
        steps = te.compute((rows, depth), lambda i, d: te.round(x[i, d] * step[0] * 64.0), "steps")
        rounded = te.compute((rows, depth), lambda i, d: te.min(te.max(steps[i, d], low), high), "rounded")
        product = te.compute((rows, width), lambda i, n: te.sum(rounded[i, k] * w[k, n], axis=k), "product")
        return te.compute((rows, width), lambda i, n: product[i, n] * (step[0] * 0.5), "scaled")

    def reference(x: np.ndarray, w: np.ndarray, step: np.ndarray) -> Checked:
        # In float32 as the kernel rounds, for one step more or less is no error of the product.
        rounded = np.clip(np.rint(x * step * np.float32(64)), -127, 127).astype(np.float64)
        scale = step.astype(np.float64) / 2
        return rounded @ w * scale, np.abs(rounded) @ np.abs(w) * np.abs(scale)

    inputs = {"x": (rows, depth), "w": (depth, width), "step": (1,)}
    operations = rows * (2 * depth * width + 5 * depth + width)
    return case("quantised_product", inputs, (rows, width), operations, compute, reference)


def _four_bits(rows: int, depth: int, width: int, group: int) -> Expression:
    """A product with weights of four bits, which have a scale for each group of rows."""

    def compute(x: te.Tensor, w: te.Tensor, scale: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, depth), "k")
        low, high = tirx.const(-8.0, "float32"), tirx.const(7.0, "float32")

        def weight(n: Any, d: Any) -> Any:
            return te.min(te.max(te.round(w[n, d] * 4.0), low), high) * scale[n, d // group]

        weights = te.compute((width, depth), weight, "weights")
        return te.compute((rows, width), lambda i, n: te.sum(x[i, k] * weights[n, k], axis=k), "product")

    def reference(x: np.ndarray, w: np.ndarray, scale: np.ndarray) -> Checked:
        weights = np.clip(np.rint(w * 4), -8, 7) * scale.repeat(group, 1)
        return x @ weights.T, np.abs(x) @ np.abs(weights).T

    inputs = {"x": (rows, depth), "w": (width, depth), "scale": (width, depth // group)}
    operations = width * depth * (2 * rows + 5)
    return case("four_bits", inputs, (rows, width), operations, compute, in_double(reference))
