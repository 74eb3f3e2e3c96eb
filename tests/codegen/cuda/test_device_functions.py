"""Functions of the CUDA preamble whose formula is ours, compiled for the CPU: tails, flushed numbers and NaN."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgetune.codegen.cuda.maths import render_device_preamble

_MAIN = """
#include <cmath>
#include <cstdint>
#include <cstdio>
#define __device__
#define __forceinline__ inline
PREAMBLE
int main(int, char **names) {
    START
    static float x[4096], y[3][4096];
    FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
    if (fread(x, 4, 4096, in) != 4096) return 1;
    for (int i = 0; i < 4096; ++i) {
        y[0][i] = check__sigmoid_f32(x[i]);
        y[1][i] = check__maximum_f32(1.0f, x[i]);
        y[2][i] = check__minimum_f32(x[i], 1.0f);
    }
    fwrite(y, 4, 3 * 4096, out);
    return fclose(in) | fclose(out);
}
"""
_FLUSHING = "__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);"
_SMALLEST = 2.0**-126
_BOUND = 4  # ULP


@pytest.mark.long
@pytest.mark.parametrize("start", ["", _FLUSHING], ids=["subnormal", "flushed"])
def test_tails_and_nan_are_those_of_the_table(start: str, tmp_path: Path) -> None:
    text = _MAIN.replace("PREAMBLE", render_device_preamble(["sigmoid:f32", "maximum:f32", "minimum:f32"], "check"))
    (tmp_path / "functions.cpp").write_text(text.replace("START", start), encoding="utf-8")
    subprocess.run(["g++", "-O1", "functions.cpp", "-o", "functions"], cwd=tmp_path, check=True)
    x = np.linspace(-110, 40, 4096).astype(np.float32)
    x[::100] = np.nan
    x.tofile(tmp_path / "in")
    subprocess.run(["./functions", "in", "out"], cwd=tmp_path, check=True)
    sigmoid, larger, smaller = np.fromfile(tmp_path / "out", np.float32).reshape(3, -1)
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    error = np.abs(sigmoid - exact)
    normal = exact >= _SMALLEST
    assert (error[normal] <= _BOUND * np.spacing(exact[normal].astype(np.float32))).all()
    assert (error[exact < _SMALLEST] <= _SMALLEST).all()
    np.testing.assert_array_equal(larger, np.maximum(x, np.float32(1)))
    np.testing.assert_array_equal(smaller, np.minimum(x, np.float32(1)))
    assert np.isnan(sigmoid[::100]).all()
