"""Transpositions are calls: of whole tensors where nothing is computed, else of blocks that stay in L1."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tvm import te, topi

from edgetune.codegen.emit import emit_kernel
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from tests.sketch_samples import board, prim_func, run


@pytest.mark.parametrize("shifted", [False, True])
def test_a_transposition_is_one_call_or_one_for_each_block(*, shifted: bool) -> None:
    x = te.placeholder((1, 12, 20, 64), name="x")
    shift = te.placeholder((1, 64, 1, 1), name="shift")
    y = te.compute((1, 64, 12, 20), lambda n, c, h, w: x[n, h, w, c], name="y")
    inputs = [x, shift] if shifted else [x]
    function = prim_func(inputs, topi.nn.relu(topi.add(y, shift)) if shifted else y)
    module = replay(function, default_trace(function, board(512, 32))[0])
    text = emit_kernel(module, board(512, 32), "kernel").definition
    rng = np.random.default_rng(0)
    values, added = rng.standard_normal((1, 12, 20, 64), np.float32), rng.standard_normal((1, 64, 1, 1), np.float32)
    wanted = values.transpose(0, 3, 1, 2)
    wanted = np.maximum(wanted + added, 0) if shifted else wanted
    arrays = [values, added] if shifted else [values]
    np.testing.assert_array_equal(run(module, [*arrays, np.zeros((1, 64, 12, 20), np.float32)]), wanted)
    if not shifted:
        assert "transpose_f32x16(&y[0], 240, &x[0], 64, 64, 240);" in text, "pixels are one axis"
        return
    calls = re.findall(r"transpose_f32x16\(&y\[0\], (\d+), &x\[[^\]]+\], 64, (\d+), (\d+)\);", text)
    assert calls == [("20", "64", "20")], f"blocks of whole lines are turned:\n{text}"
    assert re.search(r"\(f32x16u \*\)&compute", text), "and then computed with in vectors"
