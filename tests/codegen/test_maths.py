"""Polynomials against double precision: the stated bounds hold, for scalars and vectors, with and without FMA."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetune.codegen import render_preamble
from edgetune.codegen.polynomials import ULP_BOUND
from edgetune.target.target import Target, load_target
from tests.codegen_run import STRICT, flags_for, wide_target
from tests.compile_cache import compiled

_MAIN = """
#include <stdio.h>
int main(int count, char **names) {
  START
  static float x[4096], y[4096];
  FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
  size_t read = 0;
  while (count == 3 && in && out && (read = fread(x, 4, 4096, in)) > 0) {
    CALLS
  }
  return !in || !out || fclose(in) || fclose(out);
}
"""

# The caller's mode: subnormal operands and results are zero, as under -ffast-math, in which a program may be linked.
_FLUSHING = "__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);"
_SMALLEST = 2.0**-126  # normal number
_TAILED = ("exp", "log1p", "tanh", "sigmoid", "erf")

# Of a build that is not ours, which has none of the flags that take it back.
_FREEING = "-ffast-math"


def _inputs() -> np.ndarray:
    """Floats all over the range, of both signs, subnormals among them, and densely where it matters."""
    everywhere = np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = np.array([0, -0.0, np.inf, -np.inf, 1, -1, 88.72, 88.73, 89, -87.4, -103.9, -105, 1e-40], np.float32)
    parts: list[np.ndarray] = [everywhere[~np.isnan(everywhere)], special]
    parts += [np.linspace(-20, 20, 60001), np.linspace(0.4, 2.5, 30001), np.linspace(-1.1, 1.1, 30001)]
    quarters = (np.arange(1, 6001) * np.pi / 2).astype(np.float32)  # where sines and cosines are small
    parts += [np.linspace(-8192, 8192, 120001), quarters, np.nextafter(quarters, np.float32(0)), -quarters]
    values = np.concatenate([part.astype(np.float32) for part in parts])
    return values[: len(values) // 4096 * 4096]


def _exact(name: str, x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        if name == "erf":
            return np.array([math.erf(value) for value in wide])
        functions: dict[str, Any] = {
            "exp": np.exp,
            "log": np.log,
            "log1p": np.log1p,
            "tanh": np.tanh,
            "sin": np.sin,
            "cos": np.cos,
            "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        }
        return np.asarray(functions[name](wide))


def _computed(
    target: Target,
    width: int,
    x: np.ndarray,
    folder: Path,
    extra: Sequence[str],
    linked: Sequence[str] = (),
    *,
    names: Sequence[str] = tuple(sorted(ULP_BOUND)),
    start: str = "",
) -> dict[str, np.ndarray]:
    """What the functions give for `x`; `extra` are flags of the compilation, `linked` of the linking.

    `start` are the first statements of the program.
    """
    kind = "f32" if width == 1 else f"f32x{width}"
    needs = [f"{name}:{kind}" for name in names] + ([f"type:{kind}u"] if width > 1 else [])
    calls = []
    for name in names:
        if width == 1:
            calls.append(f"for (int i = 0; i < 4096; ++i) y[i] = test__{name}_f32(x[i]);")
        else:
            vector = f"test__{kind}"
            body = f"{vector} v = *({vector}u *)(x + i); test__{name}_{kind}(&v); *({vector}u *)(y + i) = v;"
            calls.append(f"for (int i = 0; i < 4096; i += {width}) {{ {body} }}")
        calls.append("fwrite(y, 4, 4096, out);")
    preamble = render_preamble(needs, target, "test")
    text = "#include <stdint.h>\n" + preamble + _MAIN.replace("CALLS", "\n    ".join(calls)).replace("START", start)
    compiler = target.compiler.cc
    flags = flags_for(target, compiler)
    if _FREEING in extra:
        flags = [flag for flag in flags if flag not in target.compiler.strict_math]
    unit = compiled([compiler, *flags, *STRICT, *extra, "-c"], {"maths.c": text}, folder, suffix=".o")
    program = folder / "maths"
    subprocess.run([compiler, *linked, unit, "-o", program, "-lm"], check=True)
    x.tofile(folder / "in")
    subprocess.run([*target.emulator, program, str(folder / "in"), str(folder / "out")], check=True)
    blocks = np.fromfile(folder / "out", np.float32).reshape(-1, len(names), 4096)
    return {name: blocks[:, number].reshape(-1) for number, name in enumerate(names)}


def _largest_error(name: str, x: np.ndarray, y: np.ndarray, *, flushes: bool, exact: np.ndarray | None = None) -> float:
    """The largest error in ULP of results that are normal numbers; below them, it is at most the smallest of them."""
    exact = _exact(name, x) if exact is None else exact
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float32)
        below = np.abs(exact) < _SMALLEST
        assert (np.abs(y.astype(np.float64) - exact)[below] <= _SMALLEST).all(), name
        smallest = 0.0 if name == "exp" and not flushes else _SMALLEST  # a row of small exponentials has its sum
        normal = np.isfinite(nearest) & (np.abs(nearest) >= smallest)
        special = ~np.isfinite(nearest)
        if flushes:
            normal &= np.abs(x) >= _SMALLEST
            special &= (np.abs(x) >= _SMALLEST) | (x == 0)
        assert ((y == nearest) | (np.isnan(y) & np.isnan(nearest)))[special].all(), x[special]
        units = np.abs(y.astype(np.float64) - exact) / np.spacing(np.abs(nearest)).astype(np.float64)
    return float(np.where(normal, units, 0).max())


@pytest.mark.parametrize("width", [1, 4, 16])
@pytest.mark.parametrize("fused", ["fast", "off"])
def test_errors_stay_below_the_stated_bounds(width: int, fused: str, tmp_path: Path) -> None:
    x = _inputs()
    found = _computed(wide_target(), width, x, tmp_path, [f"-ffp-contract={fused}"])
    for name, bound in ULP_BOUND.items():
        assert _largest_error(name, x, found[name], flushes=False) <= bound, name


@pytest.mark.parametrize(("board", "width"), [("generic-armv7", 1), ("generic-armv7", 4), ("generic-aarch64", 4)])
def test_the_bounds_hold_on_arm(board: str, width: int, tmp_path: Path) -> None:
    """Also on armv7, where vectors flush subnormals."""
    x = _inputs()
    found = _computed(load_target(board), width, x, tmp_path, [])
    for name, bound in ULP_BOUND.items():
        assert _largest_error(name, x, found[name], flushes=board == "generic-armv7") <= bound, name


@pytest.mark.parametrize("width", [1, 4, 16])
def test_the_bounds_hold_where_the_caller_flushes_subnormals(width: int, tmp_path: Path) -> None:
    x = _inputs()
    found = _computed(wide_target(), width, x, tmp_path, [], names=_TAILED, start=_FLUSHING)
    for name in _TAILED:
        assert _largest_error(name, x, found[name], flushes=True) <= ULP_BOUND[name], name


def test_small_probabilities_are_right_to_the_last_places(tmp_path: Path) -> None:
    """A sigmoid that computes 1 - 1 / (1 + e^x), or is clipped at -18, has none of these digits."""
    x = np.resize(np.array([-18, -40, -80, -87], np.float32), 4096)
    for width in (1, 16):
        found = _computed(wide_target(), width, x, tmp_path, [], names=("sigmoid",))["sigmoid"]
        assert _largest_error("sigmoid", x, found, flushes=False) <= ULP_BOUND["sigmoid"]
        assert np.allclose(found[2], 1.8048513878454153e-35, rtol=3e-7)


@cache
def _densely() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Every 9973rd float, and the exact results of functions with tails."""
    everywhere = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32).view(np.float32)
    values = everywhere[~np.isnan(everywhere)]
    values = np.resize(values, -(-len(values) // 4096) * 4096)
    return values, {name: _exact(name, values) for name in _TAILED}


@pytest.mark.long
@pytest.mark.parametrize(
    ("board", "width", "start"),
    [
        ("wide", 1, ""),
        ("wide", 16, ""),
        pytest.param("generic-x86_64", 8, _FLUSHING, id="generic-x86_64-8-flushing"),
        ("generic-armv7", 1, ""),
        ("generic-armv7", 4, ""),
    ],
)
def test_tails_are_accurate_down_to_the_smallest_normal_number(
    board: str, width: int, start: str, tmp_path: Path
) -> None:
    x, exact = _densely()
    target = wide_target() if board == "wide" else load_target(board)
    found = _computed(target, width, x, tmp_path, [], names=_TAILED, start=start)
    flushes = bool(start) or board == "generic-armv7"
    for name in _TAILED:
        assert _largest_error(name, x, found[name], flushes=flushes, exact=exact[name]) <= ULP_BOUND[name], name


@pytest.mark.long
@pytest.mark.parametrize(
    ("board", "cc", "width"),
    [
        *((board, cc, width) for board in ("wide", "generic-x86_64") for cc in ("gcc", "clang-19") for width in (1, 4)),
        ("wide", "gcc", 16),
        ("generic-aarch64", "aarch64-linux-gnu-gcc", 4),
        ("generic-riscv64", "riscv64-linux-gnu-gcc", 1),
    ],
)
def test_the_bounds_hold_twice_over_where_compilers_may_reassociate(
    board: str, cc: str, width: int, tmp_path: Path
) -> None:
    target = wide_target() if board == "wide" else load_target(board)
    other = target.model_copy(update={"compiler": target.compiler.model_copy(update={"cc": cc})})
    x = _inputs()
    found = _computed(other, width, x, tmp_path, ["-ffast-math", "-fno-finite-math-only"])
    for name, bound in ULP_BOUND.items():
        assert _largest_error(name, x, found[name], flushes=False) <= 2 * bound, name


def test_nan_stays_nan(tmp_path: Path) -> None:
    x = np.full(4096, np.nan, np.float32)
    for width in (1, 16):
        assert all(np.isnan(y).all() for y in _computed(wide_target(), width, x, tmp_path, []).values())


@pytest.mark.parametrize("width", [1, 4])
def test_no_input_leads_to_undefined_behaviour(width: int, tmp_path: Path) -> None:
    """Negative numbers next to zero and -0.0 overflowed an integer in log; the program stops at the first such case."""
    x = np.concatenate([_inputs(), np.resize(np.array([-0.0, -1e-8, np.nan, -np.nan], np.float32), 4096)])
    sanitizer = ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
    _computed(wide_target(), width, x, tmp_path, sanitizer, sanitizer)
