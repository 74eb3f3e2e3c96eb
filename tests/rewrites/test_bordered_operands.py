"""Sums whose places are kept within a row, wrap or are reflected read rows with a border, and mean the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.rewrites.bordered_operands import with_bordered_operands
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from tests.codegen_run import SANITIZERS, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments

Place = Callable[[Any, int], Any]
ROWS, COLUMNS, TAPS = 13, 45, 5


def kept(place: Any, extent: int) -> Any:
    """Places beyond the ends are those of the ends."""
    return te.max(te.min(place, tirx.const(extent - 1, "int32")), tirx.const(0, "int32"))


def wrapped(place: Any, extent: int) -> Any:
    """A row goes on at its start."""
    return (place + extent) % extent


def reflected(place: Any, extent: int) -> Any:
    """Beyond the ends, a row runs backwards."""
    before = tirx.Select(place < 0, 0 - place, place)
    return tirx.Select(place > extent - 1, 2 * (extent - 1) - place, before)


NUMPY_MODES: dict[Place, str] = {kept: "edge", wrapped: "wrap", reflected: "reflect"}


def blurred(at: Place, dtype: str = "float32") -> Any:
    """Taps along rows, then down columns, and the difference to the picture."""
    x, w = (te.placeholder(shape, dtype, name=name) for name, shape in (("x", (ROWS, COLUMNS)), ("w", (TAPS,))))
    u, v = te.reduce_axis((0, TAPS), "u"), te.reduce_axis((0, TAPS), "v")
    across = te.compute(x.shape, lambda i, j: te.sum(x[i, at(j + u - 2, COLUMNS)] * w[u], axis=u), "across")
    down = te.compute(x.shape, lambda i, j: te.sum(across[at(i + v - 2, ROWS), j] * w[v], axis=v), "down")
    return prim_func([x, w], te.compute(x.shape, lambda i, j: x[i, j] - down[i, j], "sharp"))


def reference(x: Any, w: Any, mode: str) -> Any:
    """The same by numpy, in double precision or int64."""
    wide = np.pad(x, 2, mode=mode)  # type: ignore[call-overload]
    along = sum(w[u] * wide[:, u : u + COLUMNS] for u in range(TAPS))
    return x - sum(w[v] * along[v : v + ROWS] for v in range(TAPS))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("at", NUMPY_MODES, ids=lambda at: at.__name__)
def test_lanes_read_neighbours(at: Place, dtype: str, tmp_path: Path) -> None:
    """A blur of 200 by 201 pixels has borders; its places were computed in scalar loops."""
    function, target = with_bordered_operands(blurred(at, dtype), []), wide_target(512)
    text = default_schedule(function, target, 1 << 20, FORMS)[0]
    source = emit_kernel(apply_schedule(function, text).module, target, "k")
    short = "f32" if dtype == "float32" else "i32"
    assert f"const {short}x16u *)&x_bordered[" in source.definition
    arrays = random_arguments(function)
    result = run_kernel(source, target, arrays, tmp_path, extra=SANITIZERS)[-1]
    x, w = (array.astype("float64" if dtype == "float32" else "int64") for array in arrays[:2])
    np.testing.assert_allclose(result, reference(x, w, NUMPY_MODES[at]), rtol=1e-4, atol=1e-4)


def buffers(function: Any) -> list[str]:
    """The names of the tensors between stages."""
    return [str(buffer.name) for buffer in function.body.block.alloc_buffers]


def test_equal_rows_are_written_once() -> None:
    x = te.placeholder((ROWS, COLUMNS), name="x")
    u, v = te.reduce_axis((0, TAPS), "u"), te.reduce_axis((0, TAPS), "v")
    total = te.compute(x.shape, lambda i, j: te.sum(x[i, kept(j + u - 2, COLUMNS)], axis=u), "total")
    square = te.compute(
        x.shape, lambda i, j: te.sum(x[i, kept(j + v - 2, COLUMNS)] * x[i, kept(j + v - 2, COLUMNS)], axis=v), "square"
    )
    function = prim_func([x], te.compute(x.shape, lambda i, j: square[i, j] - total[i, j], "made"))
    assert sorted(buffers(with_bordered_operands(function, []))) == ["square", "total", "x_bordered"]


def test_other_places_stay() -> None:
    """Rows have no border where rows of the picture are chosen, where nothing is kept, or where a condition guards."""
    x = te.placeholder((ROWS, COLUMNS), name="x")
    u = te.reduce_axis((0, TAPS), "u")

    def guarded(i: Any, j: Any) -> Any:
        zero = tirx.const(0.0, "float32")
        place = te.min(j + u - 2, tirx.const(COLUMNS - 1, "int32"))
        return te.sum(tirx.if_then_else(j + u >= 2, x[i, place], zero), axis=u)

    terms: list[Callable[[Any, Any], Any]] = [
        lambda i, j: te.sum(x[kept(i + u - 2, ROWS), j], axis=u),
        lambda i, j: te.sum(x[i, te.min(j, COLUMNS - TAPS) + u], axis=u),
        guarded,
    ]
    for term in terms:
        function = prim_func([x], te.compute((ROWS, COLUMNS), term, "total"))
        assert with_bordered_operands(function, []).same_as(function)


@pytest.mark.parametrize("turns", [3, 16])
def test_results_that_take_turns_read_no_row_of_their_length(turns: int) -> None:
    """Such a row would repeat a few elements hundreds of times."""
    x, w = te.placeholder((5, 64), name="x"), te.placeholder((TAPS, turns), name="w")
    u = te.reduce_axis((0, TAPS), "u")
    shape = (5, 48 * turns)
    total = te.compute(shape, lambda i, j: te.sum(x[i, j // turns + u] * w[u, j % turns], axis=u), "total")
    function = prim_func([x, w], total)
    assert with_bordered_operands(function, []).same_as(function)
