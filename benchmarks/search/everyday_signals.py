"""Everyday expressions of audio, radio, robots and control, written without a look at any rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from tvm import te, tirx

from benchmarks.search.expression import LOG, Checked, Expression, in_double, multilinear
from benchmarks.search.unforeseen import case

TURN = 20
"""Operations of a sine or cosine, about those of a polynomial for `exp`."""


def everyday_signals() -> Iterator[Expression]:
    """All 16 cases."""
    yield _every_third_sample(7, 4001, 31)
    yield _three_times_as_many(3, 10_001, 8)
    yield _mixed_down(65_537, 16)
    yield _iq_filter(4001, 63)
    yield _log_spectrum(98, 400, 160, 31)
    yield _echoes(2, 30_001)
    yield _smoothed(3, 5000, 64)
    yield _beams(7, 9, 9001)
    yield _predicted_covariance(3001, 4)
    yield _corrected_covariance(5003, 6)
    yield _turned_by_quaternions(20_011)
    yield _planar_arm(2003, 7)
    yield _lidar_points(31, 1000)
    yield _limited_control(1000, 31)
    yield _demodulated(50_000)
    yield _polygon_hits(2003, 31)


def _every_third_sample(channels: int, length: int, taps: int) -> Expression:
    """A filter of several channels of which every third result is kept."""

    def compute(x: te.Tensor, h: te.Tensor) -> te.Tensor:
        t = te.reduce_axis((0, taps), "t")
        return te.compute((channels, length), lambda c, i: te.sum(x[c, i * 3 + t] * h[t], axis=t), "thirds")

    def reference(x: np.ndarray, h: np.ndarray) -> Any:
        return sliding_window_view(x, taps, axis=1)[:, ::3] @ h

    inputs = {"x": (channels, 3 * (length - 1) + taps), "h": (taps,)}
    output = (channels, length)
    return case("every_third_sample", inputs, output, 2 * channels * length * taps, compute, multilinear(reference))


def _three_times_as_many(channels: int, length: int, taps: int) -> Expression:
    """Three samples between two, each phase with its own taps."""

    def compute(x: te.Tensor, h: te.Tensor) -> te.Tensor:
        t = te.reduce_axis((0, taps), "t")
        output = (channels, 3 * length)
        return te.compute(output, lambda c, i: te.sum(x[c, i // 3 + t] * h[t, i % 3], axis=t), "more")

    def reference(x: np.ndarray, h: np.ndarray) -> Any:
        return (sliding_window_view(x, taps, axis=1) @ h).reshape(channels, 3 * length)

    inputs = {"x": (channels, length + taps - 1), "h": (taps, 3)}
    operations = 2 * 3 * channels * length * taps
    return case("three_times_as_many", inputs, (channels, 3 * length), operations, compute, multilinear(reference))


def _mixed_down(length: int, period: int) -> Expression:
    """A real signal times a carrier of a short period, as interleaved complex numbers."""

    def compute(x: te.Tensor, carrier: te.Tensor) -> te.Tensor:
        return te.compute((length, 2), lambda i, part: x[i] * carrier[i % period, part], "mixed")

    def reference(x: np.ndarray, carrier: np.ndarray) -> Any:
        return x[:, None] * carrier[np.arange(length) % period]

    inputs = {"x": (length,), "carrier": (period, 2)}
    return case("mixed_down", inputs, (length, 2), 2 * length, compute, multilinear(reference))


def _iq_filter(length: int, taps: int) -> Expression:
    """A complex filter of a complex signal, both interleaved."""

    def compute(x: te.Tensor, h: te.Tensor) -> te.Tensor:
        t = te.reduce_axis((0, taps), "t")

        def value(i: Any, part: Any) -> Any:
            real = x[i + t, 0] * h[t, 0] - x[i + t, 1] * h[t, 1]
            imaginary = x[i + t, 0] * h[t, 1] + x[i + t, 1] * h[t, 0]
            return te.sum(tirx.Select(part == 0, real, imaginary), axis=t)

        return te.compute((length, 2), value, "filtered")

    def parts(x: np.ndarray, h: np.ndarray, minus: float) -> Any:
        seen = np.swapaxes(sliding_window_view(x, taps, axis=0), 1, 2)
        real = seen[..., 0] @ h[:, 0] + minus * (seen[..., 1] @ h[:, 1])
        return np.stack([real, seen[..., 0] @ h[:, 1] + seen[..., 1] @ h[:, 0]], 1)

    def reference(x: np.ndarray, h: np.ndarray) -> Checked:
        return parts(x, h, -1), parts(np.abs(x), np.abs(h), 1)

    inputs = {"x": (length + taps - 1, 2), "h": (taps, 2)}
    return case("iq_filter", inputs, (length, 2), 8 * length * taps, compute, in_double(reference))


def _log_spectrum(frames: int, taps: int, step: int, bins: int) -> Expression:
    """The logarithm of the power of some frequencies of overlapping, windowed frames."""

    def compute(x: te.Tensor, window: te.Tensor, cosine: te.Tensor, sine: te.Tensor) -> te.Tensor:
        framed = te.compute((frames, taps), lambda f, t: x[f * step + t] * window[t], "framed")

        def part(table: te.Tensor, name: str) -> te.Tensor:
            t = te.reduce_axis((0, taps), "t")
            return te.compute((frames, bins), lambda f, b: te.sum(framed[f, t] * table[t, b], axis=t), name)

        real, imaginary = part(cosine, "real"), part(sine, "imaginary")

        def value(f: Any, b: Any) -> Any:
            return te.log(real[f, b] * real[f, b] + imaginary[f, b] * imaginary[f, b] + 1e-6)

        return te.compute((frames, bins), value, "log_spectrum")

    def reference(x: np.ndarray, window: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> Checked:
        framed = sliding_window_view(x, taps)[::step] * window
        parts = [framed @ table for table in (cosine, sine)]
        power = parts[0] ** 2 + parts[1] ** 2 + 1e-6
        terms = [np.abs(framed) @ np.abs(table) for table in (cosine, sine)]
        lost = sum(np.abs(part) * term for part, term in zip(parts, terms, strict=True)) / power
        return np.log(power), np.abs(np.log(power)) + 2 * lost

    inputs = {"x": ((frames - 1) * step + taps,), "window": (taps,), "cosine": (taps, bins), "sine": (taps, bins)}
    operations = frames * (taps + bins * (4 * taps + 4 + LOG))
    return case("log_spectrum", inputs, (frames, bins), operations, compute, in_double(reference))


def _echoes(channels: int, length: int) -> Expression:
    """A signal and three of its echoes, silent before it begins."""
    delays = (441, 1009, 3000)

    def compute(x: te.Tensor, gain: te.Tensor) -> te.Tensor:
        def value(c: Any, i: Any) -> Any:
            result = x[c, i]
            for number, delay in enumerate(delays):
                late = tirx.if_then_else(i >= delay, x[c, i - delay], tirx.const(0.0, "float32"))
                result = result + gain[number] * late
            return result

        return te.compute((channels, length), value, "echoes")

    def reference(x: np.ndarray, gain: np.ndarray) -> Any:
        late = [np.pad(x, ((0, 0), (delay, 0)))[:, :length] for delay in delays]
        return x + np.tensordot(gain, np.stack(late), 1)

    inputs = {"x": (channels, length), "gain": (len(delays),)}
    operations = 2 * len(delays) * channels * length
    return case("echoes", inputs, (channels, length), operations, compute, multilinear(reference))


def _smoothed(channels: int, length: int, taps: int) -> Expression:
    """Past samples with given weights, as an exponential average is written without a recurrence."""

    def compute(x: te.Tensor, weight: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, taps), "k")

        def value(c: Any, i: Any) -> Any:
            past = tirx.if_then_else(i >= k, x[c, i - k], tirx.const(0.0, "float32"))
            return te.sum(past * weight[k], axis=k)

        return te.compute((channels, length), value, "smoothed")

    def reference(x: np.ndarray, weight: np.ndarray) -> Any:
        return sliding_window_view(np.pad(x, ((0, 0), (taps - 1, 0))), taps, axis=1) @ weight[::-1]

    inputs = {"x": (channels, length), "weight": (taps,)}
    return case("smoothed", inputs, (channels, length), 2 * channels * length * taps, compute, multilinear(reference))


def _beams(beams: int, microphones: int, length: int) -> Expression:
    """Delayed and weighted sums of a row of microphones, one for each direction."""

    def compute(x: te.Tensor, weight: te.Tensor) -> te.Tensor:
        m = te.reduce_axis((0, microphones), "m")
        return te.compute((beams, length), lambda b, i: te.sum(weight[b, m] * x[m, i + b * m], axis=m), "beams")

    def reference(x: np.ndarray, weight: np.ndarray) -> Any:
        late = [[x[m, b * m : b * m + length] for m in range(microphones)] for b in range(beams)]
        return np.einsum("bm,bmi->bi", weight, np.array(late))

    inputs = {"x": (microphones, length + (beams - 1) * (microphones - 1)), "weight": (beams, microphones)}
    operations = 2 * beams * microphones * length
    return case("beams", inputs, (beams, length), operations, compute, multilinear(reference))


def _predicted_covariance(batch: int, size: int) -> Expression:
    """The first half of a Kalman filter's step for many filters: F P F' + Q."""

    def compute(f: te.Tensor, p: te.Tensor, q: te.Tensor) -> te.Tensor:
        j, k = te.reduce_axis((0, size), "j"), te.reduce_axis((0, size), "k")
        shape = (batch, size, size)
        moved = te.compute(shape, lambda b, i, n: te.sum(f[b, i, j] * p[b, j, n], axis=j), "moved")
        spread = te.compute(shape, lambda b, i, n: te.sum(moved[b, i, k] * f[b, n, k], axis=k), "spread")
        zero = tirx.const(0.0, "float32")
        return te.compute(shape, lambda b, i, n: spread[b, i, n] + tirx.Select(i == n, q[i], zero), "predicted")

    def reference(f: np.ndarray, p: np.ndarray, q: np.ndarray) -> Any:
        return f @ p @ np.swapaxes(f, 1, 2) + np.diag(q)

    shape = (batch, size, size)
    operations = batch * (4 * size**3 + size)
    inputs = {"f": shape, "p": shape, "q": (size,)}
    return case("predicted_covariance", inputs, shape, operations, compute, multilinear(reference))


def _corrected_covariance(batch: int, size: int) -> Expression:
    """The second half for one scalar measurement: P less the part that the measurement explains."""

    def compute(p: te.Tensor, h: te.Tensor) -> te.Tensor:
        j, k = te.reduce_axis((0, size), "j"), te.reduce_axis((0, size), "k")
        seen = te.compute((batch, size), lambda b, i: te.sum(p[b, i, j] * h[j], axis=j), "seen")
        spread = te.compute((batch,), lambda b: te.sum(h[k] * seen[b, k], axis=k), "spread")
        least = tirx.const(0.0, "float32")

        def value(b: Any, i: Any, n: Any) -> Any:
            return p[b, i, n] - seen[b, i] * seen[b, n] / (te.max(spread[b], least) + 1.0)

        return te.compute((batch, size, size), value, "corrected")

    def reference(p: np.ndarray, h: np.ndarray) -> Checked:
        seen, terms = p @ h, np.abs(p) @ np.abs(h)
        spread = np.maximum(seen @ h, 0)[:, None, None] + 1
        lost = terms[:, :, None] * terms[:, None] / spread * (1 + (terms @ np.abs(h))[:, None, None] / spread)
        return p - seen[:, :, None] * seen[:, None] / spread, np.abs(p) + lost

    shape = (batch, size, size)
    operations = batch * (5 * size**2 + 2 * size + 2)
    return case("corrected_covariance", {"p": shape, "h": (size,)}, shape, operations, compute, in_double(reference))


def _turned_by_quaternions(count: int) -> Expression:
    """Each vector turned by its own quaternion: v + w t + u x t, where t is 2 u x v."""

    def compute(q: te.Tensor, v: te.Tensor) -> te.Tensor:
        def across(i: Any, c: Any, other: te.Tensor) -> Any:
            second, third = (c + 1) % 3, (c + 2) % 3
            return q[i, second + 1] * other[i, third] - q[i, third + 1] * other[i, second]

        twice = te.compute((count, 3), lambda i, c: across(i, c, v) * 2.0, "twice")
        return te.compute((count, 3), lambda i, c: v[i, c] + q[i, 0] * twice[i, c] + across(i, c, twice), "turned")

    def turned(q: np.ndarray, v: np.ndarray, minus: float) -> Any:
        def across(other: np.ndarray) -> Any:
            u = q[:, 1:]
            first, second = (np.roll(u, -n, 1) * np.roll(other, -m, 1) for n, m in ((1, 2), (2, 1)))
            return first + minus * second

        twice = 2 * across(v)
        return v + q[:, :1] * twice + across(twice)

    def reference(q: np.ndarray, v: np.ndarray) -> Checked:
        return turned(q, v, -1), turned(np.abs(q), np.abs(v), 1)

    inputs = {"q": (count, 4), "v": (count, 3)}
    return case("turned_by_quaternions", inputs, (count, 3), 10 * 3 * count, compute, in_double(reference))


def _planar_arm(count: int, joints: int) -> Expression:
    """Where the hand of a planar arm is, for many sets of joint angles."""

    def compute(angle: te.Tensor, length: te.Tensor) -> te.Tensor:
        j, k = te.reduce_axis((0, joints), "j"), te.reduce_axis((0, joints), "k")
        zero = tirx.const(0.0, "float32")

        def heading(b: Any, n: Any) -> Any:
            return te.sum(tirx.if_then_else(j <= n, angle[b, j], zero), axis=j)

        headings = te.compute((count, joints), heading, "headings")

        def value(b: Any, part: Any) -> Any:
            turn = tirx.Select(part == 0, te.cos(headings[b, k]), te.sin(headings[b, k]))
            return te.sum(length[k] * turn, axis=k)

        return te.compute((count, 2), value, "hands")

    def reference(angle: np.ndarray, length: np.ndarray) -> Checked:
        headings = np.cumsum(angle, 1)
        value = np.stack([np.cos(headings) @ length, np.sin(headings) @ length], 1)
        return value, np.ones_like(value) * np.abs(length).sum() * 3

    operations = count * (joints * (joints + 1) // 2 + 2 * joints * (TURN + 2))
    inputs = {"angle": (count, joints), "length": (joints,)}
    return case("planar_arm", inputs, (count, 2), operations, compute, in_double(reference))


def _lidar_points(scans: int, rays: int) -> Expression:
    """Points of many scans in the frame of the map, from ranges and the directions of the rays."""

    def compute(ranges: te.Tensor, direction: te.Tensor, pose: te.Tensor) -> te.Tensor:
        def value(s: Any, i: Any, c: Any) -> Any:
            x, y = ranges[s, i] * direction[i, 0], ranges[s, i] * direction[i, 1]
            return pose[s, c, 0] * x + pose[s, c, 1] * y + pose[s, c, 2]

        return te.compute((scans, rays, 2), value, "points")

    def reference(ranges: np.ndarray, direction: np.ndarray, pose: np.ndarray) -> Any:
        local = ranges[..., None] * direction
        return np.einsum("scd,sid->sic", pose[..., :2], local) + pose[:, None, :, 2]

    inputs = {"ranges": (scans, rays), "direction": (rays, 2), "pose": (scans, 2, 3)}
    return case("lidar_points", inputs, (scans, rays, 2), 10 * scans * rays, compute, multilinear(reference))


def _limited_control(steps: int, channels: int) -> Expression:
    """A proportional and derivative controller of several channels, its result limited."""

    def compute(x: te.Tensor, before: te.Tensor, gain: te.Tensor, rate: te.Tensor, limit: te.Tensor) -> te.Tensor:
        def value(i: Any, c: Any) -> Any:
            wanted = gain[c] * x[i, c] + rate[c] * ((x[i, c] - before[i, c]) * 100.0)
            most = te.abs(limit[0]) * 50.0
            return te.min(te.max(wanted, 0.0 - most), most)

        return te.compute((steps, channels), value, "limited")

    def reference(x: np.ndarray, before: np.ndarray, gain: np.ndarray, rate: np.ndarray, limit: np.ndarray) -> Checked:
        most = np.abs(limit[0]) * 50
        terms = np.abs(gain * x) + np.abs(rate) * (np.abs(x) + np.abs(before)) * 100
        return np.clip(gain * x + rate * ((x - before) * 100), -most, most), terms + most

    shape = (steps, channels)
    inputs = {"x": shape, "before": shape, "gain": (channels,), "rate": (channels,), "limit": (1,)}
    return case("limited_control", inputs, shape, 7 * steps * channels, compute, in_double(reference))


def _demodulated(length: int) -> Expression:
    """The change of phase from one complex sample to the next, as a radio demodulates frequency."""

    def compute(x: te.Tensor) -> te.Tensor:
        def value(i: Any) -> Any:
            turned = x[i, 0] * x[i + 1, 1] - x[i, 1] * x[i + 1, 0]
            return turned / (x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1] + 1e-3)

        return te.compute((length,), value, "demodulated")

    def reference(x: np.ndarray) -> Checked:
        now, after = x[:-1], x[1:]
        power = (now**2).sum(1) + 1e-3
        first, second = now[:, 0] * after[:, 1], now[:, 1] * after[:, 0]
        return (first - second) / power, (np.abs(first) + np.abs(second)) / power

    return case("demodulated", {"x": (length + 1, 2)}, (length,), 8 * length, compute, in_double(reference))


def _polygon_hits(points: int, corners: int) -> Expression:
    """How many edges of a polygon lie to the right of each point; odd for those inside."""

    def compute(p: te.Tensor, q: te.Tensor) -> te.Tensor:
        e = te.reduce_axis((0, corners), "e")

        def hits(i: Any) -> Any:
            after = (e + 1) % corners
            rise = q[after, 1] - q[e, 1]
            crosses = tirx.all(te.min(q[e, 1], q[after, 1]) <= p[i, 1], p[i, 1] < te.max(q[e, 1], q[after, 1]))
            left = p[i, 0] < (q[after, 0] - q[e, 0]) * (p[i, 1] - q[e, 1]) / rise + q[e, 0]
            one, zero = tirx.const(1.0, "float32"), tirx.const(0.0, "float32")
            return te.sum(tirx.Select(tirx.all(crosses, left), one, zero), axis=e)

        return te.compute((points,), hits, "hits")

    def reference(p: np.ndarray, q: np.ndarray) -> Checked:
        (x, y), after = q.T, np.roll(q, -1, 0)
        high = p[:, 1:]
        crosses = (np.minimum(y, after[:, 1]) <= high) & (high < np.maximum(y, after[:, 1]))
        left = p[:, :1] < (after[:, 0] - x) * (high - y) / (after[:, 1] - y) + x
        value = (crosses & left).sum(1).astype(np.float64)
        return value, value + 1

    inputs = {"p": (points, 2), "q": (corners, 2)}
    return case("polygon_hits", inputs, (points,), 12 * points * corners, compute, in_double(reference))
