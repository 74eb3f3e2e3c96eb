"""Everyday expressions of finance, physics, statistics and recommenders, written without a look at any rule."""

from __future__ import annotations

from collections.abc import Iterator
from math import erf
from typing import Any

import numpy as np
from tvm import te, tirx

from benchmarks.search.expression import EXP, LOG, Checked, Expression, in_double, multilinear
from benchmarks.search.unforeseen import case, einsum
from edgetune.codegen.operations import polynomial_operations


def everyday_numbers() -> Iterator[Expression]:
    """All 15 cases."""
    yield _option_prices(10_007)
    yield _portfolio_risk(1000, 31)
    yield _drawdown(127, 252)
    yield _asian_option(2003, 31)
    yield _gravity(301)
    yield _lattice_boltzmann(100, 127)
    yield _finite_volumes(200, 201)
    yield _red_black(255, 257)
    yield _correlations(1000, 31)
    yield _weighted_histogram(20_000, 31)
    yield _kernel_density(127, 1001)
    yield einsum("matrix_product_state", "lpr,rqs->lpqs", l=31, p=3, r=64, q=5, s=33)
    yield _smoothed_mesh(10_007, 6)
    yield _factorisation(200, 127, 16)
    yield _embedding_bag(255, 40, 1000, 48)


def _option_prices(count: int) -> Expression:
    """Prices of calls by Black and Scholes, each with its own volatility and time."""

    def compute(spot: te.Tensor, strike: te.Tensor, spread: te.Tensor, time: te.Tensor, rate: te.Tensor) -> te.Tensor:
        def normal(x: Any) -> Any:
            return (te.erf(x * 0.70710678) + 1.0) * 0.5

        def value(i: Any) -> Any:
            now, later = te.exp(spot[i] * 0.125), te.exp(strike[i] * 0.125)
            volatility, years, interest = te.abs(spread[i]) + 0.25, te.abs(time[i]) + 0.25, rate[0] * 0.125
            width = volatility * te.sqrt(years)
            upper = (te.log(now / later) + (interest + volatility * volatility * 0.5) * years) / width
            return now * normal(upper) - later * te.exp(interest * years * -1.0) * normal(upper - width)

        return te.compute((count,), value, "prices")

    def reference(
        spot: np.ndarray, strike: np.ndarray, spread: np.ndarray, time: np.ndarray, rate: np.ndarray
    ) -> Checked:
        volatility, years, interest = np.abs(spread) + 0.25, np.abs(time) + 0.25, rate * 0.125
        width = volatility * np.sqrt(years)
        upper = ((spot - strike) / 8 + (interest + volatility**2 / 2) * years) / width
        shares = [(1 + np.vectorize(erf)(x * np.sqrt(0.5))) / 2 for x in (upper, upper - width)]
        now, later = np.exp(spot / 8), np.exp(strike / 8 - interest * years)
        return now * shares[0] - later * shares[1], now + later

    inputs = dict.fromkeys(("spot", "strike", "spread", "time"), (count,)) | {"rate": (1,)}
    operations = count * (3 * EXP + LOG + 2 * polynomial_operations("erf") + 22)
    return case("option_prices", inputs, (count,), operations, compute, in_double(reference))


def _portfolio_risk(portfolios: int, assets: int) -> Expression:
    """The deviation of many portfolios from one covariance: a quadratic form of each row."""

    def compute(weight: te.Tensor, covariance: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, assets), "i"), te.reduce_axis((0, assets), "j")
        variance = te.compute(
            (portfolios,), lambda p: te.sum(weight[p, i] * covariance[i, j] * weight[p, j], axis=[i, j]), "variance"
        )
        return te.compute((portfolios,), lambda p: te.sqrt(te.abs(variance[p]) + 0.25), "risk")

    def reference(weight: np.ndarray, covariance: np.ndarray) -> Checked:
        variance = np.einsum("pi,ij,pj->p", weight, covariance, weight)
        terms = np.einsum("pi,ij,pj->p", *map(np.abs, (weight, covariance, weight)))
        risk = np.sqrt(np.abs(variance) + 0.25)
        return risk, risk + terms / risk

    inputs = {"weight": (portfolios, assets), "covariance": (assets, assets)}
    operations = portfolios * (2 * assets * (assets + 1) + 2)
    return case("portfolio_risk", inputs, (portfolios,), operations, compute, in_double(reference))


def _drawdown(paths: int, days: int) -> Expression:
    """The largest loss from an earlier peak, with peaks as maxima over a triangle, which is counted."""

    def compute(x: te.Tensor) -> te.Tensor:
        s, t = te.reduce_axis((0, days), "s"), te.reduce_axis((0, days), "t")
        never = tirx.const(-1e30, "float32")
        peak = te.compute((paths, days), lambda p, d: te.max(tirx.if_then_else(s <= d, x[p, s], never), axis=s), "peak")
        return te.compute((paths,), lambda p: te.max(peak[p, t] - x[p, t], axis=t), "drawdown")

    def reference(x: np.ndarray) -> Checked:
        value = (np.maximum.accumulate(x, 1) - x).max(1)
        return value, value

    operations = paths * days * ((days + 1) // 2 + 2)
    return case("drawdown", {"x": (paths, days)}, (paths,), operations, compute, in_double(reference))


def _asian_option(paths: int, steps: int) -> Expression:
    """The payment of an option on the mean of a price, for many random paths."""

    def compute(x: te.Tensor, spread: te.Tensor) -> te.Tensor:
        s, t = te.reduce_axis((0, steps), "s"), te.reduce_axis((0, steps), "t")
        zero = tirx.const(0.0, "float32")
        walk = te.compute((paths, steps), lambda p, n: te.sum(tirx.if_then_else(s <= n, x[p, s], zero), axis=s), "walk")
        price = te.compute((paths, steps), lambda p, n: te.exp(walk[p, n] * spread[0] * 0.125), "price")
        mean = te.compute((paths,), lambda p: te.sum(price[p, t], axis=t), "mean")
        return te.compute((paths,), lambda p: te.max(mean[p] / float(steps) - 1.0, zero), "payment")

    def reference(x: np.ndarray, spread: np.ndarray) -> Checked:
        scale = spread[0] / 8
        price = np.exp(np.cumsum(x, 1) * scale)
        terms = (price * (1 + np.cumsum(np.abs(x), 1) * np.abs(scale))).mean(1) + 1
        return np.maximum(price.mean(1) - 1, 0), terms

    operations = paths * (steps * (steps + 1) // 2 + steps * (EXP + 3) + 3)
    return case(
        "asian_option", {"x": (paths, steps), "spread": (1,)}, (paths,), operations, compute, in_double(reference)
    )


def _gravity(bodies: int) -> Expression:
    """How each body is drawn by all others; the distance is written out where it is used."""

    def compute(place: te.Tensor, mass: te.Tensor) -> te.Tensor:
        j = te.reduce_axis((0, bodies), "j")

        def value(i: Any, c: Any) -> Any:
            gaps = [place[j, n] - place[i, n] for n in range(3)]
            square = gaps[0] * gaps[0] + gaps[1] * gaps[1] + gaps[2] * gaps[2] + 0.01
            return te.sum(mass[j] * (place[j, c] - place[i, c]) / (square * te.sqrt(square)), axis=j)

        return te.compute((bodies, 3), value, "gravity")

    def reference(place: np.ndarray, mass: np.ndarray) -> Checked:
        gap = place - place[:, None]
        weight = mass[:, None] * gap / ((gap**2).sum(-1, keepdims=True) + 0.01) ** 1.5
        return weight.sum(1), np.abs(weight).sum(1)

    inputs = {"place": (bodies, 3), "mass": (bodies,)}
    return case("gravity", inputs, (bodies, 3), 19 * bodies**2, compute, in_double(reference))


def _lattice_boltzmann(rows: int, columns: int) -> Expression:
    """A step of a fluid on a periodic lattice of nine velocities: streaming and collision."""
    shape = (9, rows, columns)

    def compute(f: te.Tensor, weight: te.Tensor, rate: te.Tensor) -> te.Tensor:
        def streamed(q: Any, y: Any, x: Any) -> Any:
            return f[q, (y - (q // 3 - 1) + rows) % rows, (x - (q % 3 - 1) + columns) % columns] * 0.125 + 1.0

        moved = te.compute(shape, streamed, "moved")
        grid = (rows, columns)
        q = te.reduce_axis((0, 9), "q")
        density = te.compute(grid, lambda y, x: te.sum(moved[q, y, x], axis=q), "density")
        m, n = te.reduce_axis((0, 9), "m"), te.reduce_axis((0, 9), "n")
        down = te.compute(grid, lambda y, x: te.sum(moved[m, y, x] * (m // 3 - 1).astype("float32"), axis=m), "down")
        right = te.compute(grid, lambda y, x: te.sum(moved[n, y, x] * (n % 3 - 1).astype("float32"), axis=n), "right")

        def collided(q: Any, y: Any, x: Any) -> Any:
            u, v = down[y, x] / density[y, x], right[y, x] / density[y, x]
            along = (q // 3 - 1).astype("float32") * u + (q % 3 - 1).astype("float32") * v
            balance = along * 3.0 + along * along * 4.5 - (u * u + v * v) * 1.5 + 1.0
            return moved[q, y, x] + rate[0] * (weight[q] * density[y, x] * balance - moved[q, y, x])

        return te.compute(shape, collided, "collided")

    def reference(f: np.ndarray, weight: np.ndarray, rate: np.ndarray) -> Checked:
        velocity = np.array([[q // 3 - 1, q % 3 - 1] for q in range(9)])
        moved = np.stack([np.roll(f[q], tuple(velocity[q]), (0, 1)) for q in range(9)]) / 8 + 1
        density = moved.sum(0)
        mean = np.einsum("qyx,qc->cyx", moved, velocity) / density
        along, square = np.einsum("cyx,qc->qyx", mean, velocity), (mean**2).sum(0)
        balance = weight[:, None, None] * density
        value = moved + rate * (balance * (1 + 3 * along + 4.5 * along**2 - 1.5 * square) - moved)
        return value, (1 + np.abs(rate)) * (np.abs(moved) + 6 * np.abs(balance))

    inputs = {"f": shape, "weight": (9,), "rate": (1,)}
    return case("lattice_boltzmann", inputs, shape, (9 * 16 + 30) * rows * columns, compute, in_double(reference))


def _finite_volumes(rows: int, columns: int) -> Expression:
    """A step of advection, where each face takes the value from which the flow comes; borders let it out."""

    def compute(x: te.Tensor, across: te.Tensor, down: te.Tensor) -> te.Tensor:
        def right(i: Any, j: Any) -> Any:
            before, after = x[i, te.max(j - 1, 0)], x[i, te.min(j, columns - 1)]
            return across[i, j] * tirx.Select(across[i, j] > 0.0, before, after)

        def below(i: Any, j: Any) -> Any:
            before, after = x[te.max(i - 1, 0), j], x[te.min(i, rows - 1), j]
            return down[i, j] * tirx.Select(down[i, j] > 0.0, before, after)

        flux = te.compute((rows, columns + 1), right, "flux")
        fall = te.compute((rows + 1, columns), below, "fall")

        def value(i: Any, j: Any) -> Any:
            return x[i, j] - (flux[i, j + 1] - flux[i, j] + fall[i + 1, j] - fall[i, j]) * 0.25

        return te.compute((rows, columns), value, "advected")

    def reference(x: np.ndarray, across: np.ndarray, down: np.ndarray) -> Checked:
        wide = np.pad(x, 1, mode="edge")
        flux = across * np.where(across > 0, wide[1:-1, :-1], wide[1:-1, 1:])
        fall = down * np.where(down > 0, wide[:-1, 1:-1], wide[1:, 1:-1])
        terms = np.abs(flux[:, 1:]) + np.abs(flux[:, :-1]) + np.abs(fall[1:]) + np.abs(fall[:-1])
        return x - (np.diff(flux, axis=1) + np.diff(fall, axis=0)) / 4, np.abs(x) + terms

    inputs = {"x": (rows, columns), "across": (rows, columns + 1), "down": (rows + 1, columns)}
    return case("finite_volumes", inputs, (rows, columns), 9 * rows * columns, compute, in_double(reference))


def _red_black(rows: int, columns: int) -> Expression:
    """Half of a step of Gauss and Seidel: every other point takes the mean of its neighbours."""

    def compute(x: te.Tensor, source: te.Tensor) -> te.Tensor:
        def value(i: Any, j: Any) -> Any:
            inside = tirx.all(i > 0, i < rows - 1, j > 0, j < columns - 1, (i + j) % 2 == 0)
            mean = (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] + source[i, j]) * 0.25
            return tirx.if_then_else(inside, mean, x[i, j])

        return te.compute((rows, columns), value, "relaxed")

    def reference(x: np.ndarray, source: np.ndarray) -> Any:
        value = x.copy()
        mean = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + source[1:-1, 1:-1]) / 4
        red = np.add.outer(np.arange(1, rows - 1), np.arange(1, columns - 1)) % 2 == 0
        value[1:-1, 1:-1][red] = mean[red]
        return value

    inputs = {"x": (rows, columns), "source": (rows, columns)}
    return case("red_black", inputs, (rows, columns), 5 * rows * columns // 2, compute, multilinear(reference))


def _correlations(rows: int, columns: int) -> Expression:
    """The correlation of all pairs of columns."""

    def compute(x: te.Tensor) -> te.Tensor:
        i, j, k = (te.reduce_axis((0, rows), name) for name in "ijk")
        mean = te.compute((columns,), lambda c: te.sum(x[i, c], axis=i), "mean")
        gap = te.compute((rows, columns), lambda r, c: x[r, c] - mean[c] / float(rows), "gap")
        square = te.compute((columns,), lambda c: te.sum(gap[j, c] * gap[j, c], axis=j), "square")
        shape = (columns, columns)
        product = te.compute(shape, lambda a, b: te.sum(gap[k, a] * gap[k, b], axis=k), "product")
        return te.compute(shape, lambda a, b: product[a, b] / te.sqrt(square[a] * square[b]), "correlations")

    def reference(x: np.ndarray) -> Checked:
        gap = x - x.mean(0)
        gap /= np.linalg.norm(gap, axis=0)
        return gap.T @ gap, np.abs(gap).T @ np.abs(gap)

    operations = rows * columns * (2 * columns + 4) + 3 * columns**2
    return case("correlations", {"x": (rows, columns)}, (columns, columns), operations, compute, in_double(reference))


def _weighted_histogram(count: int, bins: int) -> Expression:
    """Sums of the weights of all values in each bin."""

    def compute(x: te.Tensor, weight: te.Tensor) -> te.Tensor:
        i = te.reduce_axis((0, count), "i")
        zero = tirx.const(0.0, "float32")

        def value(b: Any) -> Any:
            own = te.floor(x[i] * 8.0).astype("int32") + bins // 2 == b
            return te.sum(tirx.Select(own, weight[i], zero), axis=i)

        return te.compute((bins,), value, "histogram")

    def reference(x: np.ndarray, weight: np.ndarray) -> Any:
        own = np.floor(x * 8)[:, None] + bins // 2 == np.arange(bins)
        return (own * weight[:, None]).sum(0)

    def both(x: np.ndarray, weight: np.ndarray) -> Checked:
        return reference(x, weight), reference(x, np.abs(weight))

    inputs = {"x": (count,), "weight": (count,)}
    return case("weighted_histogram", inputs, (bins,), 2 * count * bins, compute, in_double(both))


def _kernel_density(places: int, samples: int) -> Expression:
    """The density of samples at many places, by Gaussians of a width that is known only at run time."""

    def compute(place: te.Tensor, sample: te.Tensor, width: te.Tensor) -> te.Tensor:
        i = te.reduce_axis((0, samples), "i")

        def value(p: Any) -> Any:
            gap = (place[p] - sample[i]) / (te.abs(width[0]) + 0.5)
            return te.sum(te.exp(gap * gap * -0.5), axis=i)

        total = te.compute((places,), value, "total")
        return te.compute((places,), lambda p: total[p] / float(samples), "density")

    def reference(place: np.ndarray, sample: np.ndarray, width: np.ndarray) -> Checked:
        gap = (place[:, None] - sample) / (np.abs(width) + 0.5)
        value = np.exp(-(gap**2) / 2).mean(1)
        return value, value + 1e-3

    inputs = {"place": (places,), "sample": (samples,), "width": (1,)}
    return case("kernel_density", inputs, (places,), places * samples * (EXP + 5), compute, in_double(reference))


def _smoothed_mesh(points: int, neighbours: int) -> Expression:
    """Each point of a mesh moved half of the way to the mean of those that numbers name."""

    def compute(x: te.Tensor, number: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, neighbours), "k")

        def near(p: Any, c: Any) -> Any:
            other = te.floor(te.abs(number[p, k]) * 4096.0).astype("int32") % points
            return te.sum(x[other, c], axis=k)

        total = te.compute((points, 3), near, "total")
        return te.compute((points, 3), lambda p, c: x[p, c] * 0.5 + total[p, c] * (0.5 / neighbours), "smoothed")

    def reference(x: np.ndarray, number: np.ndarray) -> Checked:
        near = np.floor(np.abs(number) * 4096).astype(int) % points
        value, terms = (y / 2 + y[near].mean(1) / 2 for y in (x, np.abs(x)))
        return value, terms

    inputs = {"x": (points, 3), "number": (points, neighbours)}
    operations = 3 * points * (neighbours + 3)
    return case("smoothed_mesh", inputs, (points, 3), operations, compute, in_double(reference))


def _factorisation(rows: int, features: int, factors: int) -> Expression:
    """A factorisation machine: a line, and half of the squared sums less the sums of squares."""

    def compute(x: te.Tensor, v: te.Tensor, w: te.Tensor, bias: te.Tensor) -> te.Tensor:
        i, j, m = (te.reduce_axis((0, features), name) for name in "ijm")
        k = te.reduce_axis((0, factors), "k")
        shape = (rows, factors)
        sums = te.compute(shape, lambda b, f: te.sum(x[b, i] * v[i, f], axis=i), "sums")
        squares = te.compute(shape, lambda b, f: te.sum(x[b, j] * x[b, j] * v[j, f] * v[j, f], axis=j), "squares")
        line = te.compute((rows,), lambda b: te.sum(x[b, m] * w[m], axis=m), "line")
        pairs = te.compute((rows,), lambda b: te.sum(sums[b, k] * sums[b, k] - squares[b, k], axis=k), "pairs")
        return te.compute((rows,), lambda b: bias[0] + line[b] + pairs[b] * 0.5, "score")

    def reference(x: np.ndarray, v: np.ndarray, w: np.ndarray, bias: np.ndarray) -> Checked:
        pairs = ((x @ v) ** 2 - x**2 @ v**2).sum(1)
        terms = ((np.abs(x) @ np.abs(v)) ** 2).sum(1) + np.abs(x) @ np.abs(w) + np.abs(bias)
        return bias + x @ w + pairs / 2, terms

    inputs = {"x": (rows, features), "v": (features, factors), "w": (features,), "bias": (1,)}
    operations = rows * (features * (5 * factors + 3) + 3 * factors + 3)
    return case("factorisation", inputs, (rows,), operations, compute, in_double(reference))


def _embedding_bag(rows: int, count: int, entries: int, width: int) -> Expression:
    """Weighted sums of the rows of a table that numbers name."""

    def compute(table: te.Tensor, number: te.Tensor, weight: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, count), "k")

        def value(b: Any, d: Any) -> Any:
            row = te.floor(te.abs(number[b, k]) * 256.0).astype("int32") % entries
            return te.sum(table[row, d] * weight[b, k], axis=k)

        return te.compute((rows, width), value, "bags")

    def reference(table: np.ndarray, number: np.ndarray, weight: np.ndarray) -> Checked:
        taken = table[np.floor(np.abs(number) * 256).astype(int) % entries]
        value, terms = (np.einsum("bkd,bk->bd", t, w) for t, w in ((taken, weight), (np.abs(taken), np.abs(weight))))
        return value, terms

    inputs = {"table": (entries, width), "number": (rows, count), "weight": (rows, count)}
    operations = 2 * rows * count * width
    return case("embedding_bag", inputs, (rows, width), operations, compute, in_double(reference))
