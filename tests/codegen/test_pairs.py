"""Pairs and reversed rows are read by whole vectors and shuffles, and nothing outside of a tensor is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.parallel_kernel import Sharing, emit_shared_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from tests import codegen_samples as samples
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.sketch_samples import prim_func, random_arguments, run_plain
from tests.threads_sample import backwards

Value = Callable[[Any, int, Any, Any], Any]
ROWS = 3


def magnitude(x: Any, _: int, r: Any, c: Any) -> Any:
    """The absolute value of a complex number."""
    return te.sqrt(x[r, 2 * c] * x[r, 2 * c] + x[r, 2 * c + 1] * x[r, 2 * c + 1])


def second(x: Any, _: int, r: Any, c: Any) -> Any:
    """A function of the imaginary part: the last load begins at an odd place and ends with the tensor."""
    return te.tanh(x[r, 2 * c + 1]) * 2.0


def predicted(x: Any, columns: int, r: Any, c: Any) -> Any:
    """What the neighbours of an odd element do not predict of it: a pair, and another even element or the first one."""
    return x[r, 2 * c + 1] - (x[r, 2 * c] + x[r, te.min(2 * c + 2, 2 * columns - 2)]) * 0.5


def apart(x: Any, _: int, r: Any, c: Any) -> Any:
    """Two elements that are no neighbours share no load."""
    return x[r, 2 * c] * x[(r + 1) % ROWS, 2 * c + 1] + x[r, 2 * c] * x[r, 2 * c]


def flipped(x: Any, columns: int, r: Any, c: Any) -> Any:
    """A row from its end, both ways."""
    return x[ROWS - 1 - r, 2 * columns - 1 - c] * 1.5 - x[r, c] * x[r, columns - 1 - c]


def banded(x: Any, _: int, r: Any, c: Any) -> Any:
    """A sum and a difference of each pair, chosen along an axis of the rows."""
    return tirx.Select(r == 0, x[0, 2 * c] + x[0, 2 * c + 1], x[0, 2 * c] - x[0, 2 * c + 1])


def guarded(x: Any, columns: int, r: Any, c: Any) -> Any:
    """The element before the first one is loaded for a row that asks for it, and none does."""
    before = x[r, 2 * c - 1]
    return x[r, 2 * c] + tirx.if_then_else(x[ROWS - 1, 2 * columns - 1] > 1e30, before, 0.0)


VALUES: tuple[Value, ...] = (magnitude, second, predicted, apart, flipped, banded, guarded)


def made(value: Value, columns: int) -> Any:
    x = te.placeholder((ROWS, 2 * columns), name="x")
    return prim_func([x], te.compute((ROWS, columns), lambda r, c: value(x, columns, r, c), "made"))


def emitted(function: Any, bits: int = 512) -> KernelSource:
    target = wide_target(bits)
    return emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")


@pytest.mark.long
@pytest.mark.parametrize("value", VALUES)
@costly(5)
@given(columns=st.integers(1, 70), bits=st.sampled_from([128, 256, 512]), cc=st.sampled_from(["gcc", "clang-19"]))
def test_values(value: Value, bits: int, cc: str, columns: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    function, target, folder = made(value, columns), wide_target(bits), tmp_path_factory.mktemp("pairs")
    source, arrays = emitted(function, bits), random_arguments(function)
    compile_strictly(source, target, folder, cc)
    result = run_kernel(source, target, arrays, folder, cc=cc, extra=SANITIZERS)[-1]
    assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("value", "calls"),
    [
        (magnitude, {"pairs_f32x16": 1, "every_second": 0}),
        (second, {"every_second_f32x16": 1, "pairs": 0}),
        (apart, {"every_second_f32x16": 2, "pairs": 0}),
        (flipped, {"backwards_f32x16": 2}),
        (banded, {"pairs_f32x16": 1, "every_second": 0}),
    ],
)
def test_each_vector_is_loaded_once(value: Value, calls: dict[str, int]) -> None:
    """Both parts of a pair come of one call, and what is used twice is loaded once."""
    text = emitted(made(value, 32)).definition
    for name, count in calls.items():
        assert text.count(f"@{name}") == count, text


_STORED = """# from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((32,), "float32"), y: T.Buffer((16,), "float32"), z: T.Buffer((16,), "float32")):
    a = T.alloc_buffer((4096,))
    for o, c in T.grid(2, 16):
        a[o * 16 + c] = x[o * 16 + c]
    for c in T.vectorized(16):
        y[c] = a[2 * c] - a[2 * c + 1] * T.float32(2)
    for o in range(2):
        for c in T.vectorized(16):
            a[o * 16 + c] = x[o * 16 + c] * T.float32(3)
    for c in T.vectorized(16):
        z[c] = a[2 * c] - a[2 * c + 1] * T.float32(2)
"""


def test_stored_pairs_are_loaded_again(tmp_path: Path) -> None:
    """A tensor that the kernel writes in between is read after that."""
    module, target = samples.module(tvm.script.from_source(_STORED)), wide_target(512)
    source = emit_kernel(module, target, "k")
    assert source.definition.count("@pairs_f32x16") == 2, source.definition
    x = np.arange(32, dtype=np.float32) ** 2
    empty = np.zeros(16, np.float32)
    compile_strictly(source, target, tmp_path, "gcc")
    *_, y, z = run_kernel(source, target, [x, empty, empty], tmp_path, cc="gcc", extra=SANITIZERS)
    assert_allclose(y, x[::2] - 2 * x[1::2])
    assert_allclose(z, 3 * y)


def test_threads_share_rows(tmp_path: Path) -> None:
    """A thread's part of the vectors of a row has the pairs of that part."""
    x = te.placeholder((40000, 2), name="x")
    value = te.compute((40000,), lambda i: te.exp(x[i, 0]) * te.tanh(x[i, 1]), "made")
    function, target = prim_func([x], value), wide_target(512)
    module = apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module
    source = emit_shared_kernel(module, target, "sample", Sharing("test", 3, 1))
    assert source.workers > 1
    arrays = random_arguments(function)
    result = run_kernel(backwards(source), target, arrays, tmp_path)[-1]
    assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def of_length_one(rows: int) -> Any:
    """Complex numbers divided by their absolute values."""
    x = te.placeholder((rows, 2), name="x")

    def value(i: Any, c: Any) -> Any:
        return x[i, c] / te.sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1] + 0.01)

    return prim_func([x], te.compute((rows, 2), value, "made"))


@pytest.mark.parametrize("rows", [16, 45])
@pytest.mark.parametrize(("bits", "cc"), [(128, "clang-19"), (256, "gcc"), (256, "clang-19"), (512, "gcc")])
def test_two_vectors_are_stored_in_turns(rows: int, bits: int, cc: str, tmp_path: Path) -> None:
    """Vectors run across rows of two: the root was taken of one row at a time."""
    function, target = of_length_one(rows), wide_target(bits)
    source, arrays = emitted(function, bits), random_arguments(function)
    assert source.definition.count(f"@take_turns_f32x{bits // 32}x2(") == 1
    assert source.definition.count(f"@pairs_f32x{bits // 32}(") == 1
    compile_strictly(source, target, tmp_path, cc)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def test_few_rows_of_two_stay_rows() -> None:
    assert "take_turns" not in emitted(of_length_one(15)).definition


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize(("rows", "columns"), [(7, 3), (31, 5), (3, 1)])
def test_short_rows_of_pairs_are_one_row(rows: int, columns: int, bits: int, tmp_path: Path) -> None:
    """Rows of three pairs fill no vector each, but lie one after another."""
    x = te.placeholder((rows, columns, 2), name="x")
    value = te.compute((rows, columns), lambda r, c: te.exp(x[r, c, 0]) - x[r, c, 1], "made")
    function, target = prim_func([x], value), wide_target(bits)
    source, arrays = emitted(function, bits), random_arguments(function)
    assert ("@pairs_f32x" in source.definition) == (columns > 1)
    compile_strictly(source, target, tmp_path, "gcc")
    result = run_kernel(source, target, arrays, tmp_path, cc="gcc", extra=SANITIZERS)[-1]
    assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)
