"""Arithmetic with a tensor in another order turns blocks of it in registers, and means the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.rewrites.turned_operands import with_turned_operands
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.sketches.block_analysis import block_of
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.sketch_samples import prim_func, random_arguments, run_plain
from tests.te_programs import program_from_te


def both_ways(rows: int) -> Any:
    x = te.placeholder((rows, rows), name="x")
    return prim_func([x], te.compute(x.shape, lambda i, j: (x[i, j] + x[j, i]) * 0.5, "o"))


def permuted(shape: Sequence[int], order: Sequence[int], *, biased: int | None = None) -> Any:
    """A tensor with its axes in another `order`, times the tensor in which they are so; `biased`: along an axis."""
    wanted = [shape[axis] for axis in order]
    x, y = te.placeholder(list(shape), name="x"), te.placeholder(wanted, name="y")
    bias = te.placeholder((wanted[biased or 0],), name="bias")

    def value(*axes: Any) -> Any:
        product = x(*(axes[list(order).index(axis)] for axis in range(len(shape)))) * y(*axes)
        return product if biased is None else product + bias[axes[biased]]

    return prim_func([x, y] if biased is None else [x, y, bias], te.compute(wanted, value, "o"))


def source_of(function: Any, bits: int = 512) -> Any:
    function, target = with_turned_operands(function), wide_target(bits)
    return emit_kernel(replay(function, default_trace(function, target)[0]), target, "k")


def check(function: Any, folder: Path, bits: int, cc: str = "gcc") -> None:
    """Compare with the function as it is written."""
    arrays = random_arguments(function)
    wanted = run_plain(function, arrays)
    found = run_kernel(source_of(function, bits), wide_target(bits), arrays, folder, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def stages(function: Any) -> list[str]:
    body = with_turned_operands(function).body.block.body
    return [str(block_of(one).name_hint) for one in getattr(body, "seq", [body])]


def test_an_operand_in_another_order_is_copied_once_and_neighbours_are_read() -> None:
    assert stages(both_ways(48)) == ["x_turned", "o"]
    assert stages(permuted((10, 20, 30), (2, 0, 1))) == ["x_turned", "o"]
    x = te.placeholder((48, 48), name="x")
    twice = te.compute(x.shape, lambda i, j: x[j, i] * te.exp(x[j, i]) + x[i, j], "o")
    assert stages(prim_func([x], twice)) == ["x_turned", "o"], "one copy for two loads of it"


@pytest.mark.parametrize("value", [lambda x, i, j: x[i, j] * 2.0, lambda x, i, j: x[j, i]], ids=["in place", "copy"])
def test_other_stages_stay_as_they_are(value: Callable[..., Any]) -> None:
    x = te.placeholder((48, 48), name="x")
    assert stages(prim_func([x], te.compute(x.shape, lambda i, j: value(x, i, j), "o"))) == ["o"]
    assert stages(both_ways(16)) == ["o"], "small tensors are in L1 as they are"
    assert stages(permuted((40, 30, 20), (1, 0, 2))) == ["o"], "rows stay rows"
    k = te.reduce_axis((0, 48), "k")
    total = te.compute((48,), lambda i: te.sum(x[k, i], axis=k), "total")
    summed = te.compute(x.shape, lambda i, j: x[j, i] * total[i], "o")
    assert "x_turned" not in stages(prim_func([x], summed)), "a reduction has rules of its own"


def test_a_stage_that_branches_reads_as_before() -> None:
    """Its rows are divided where the condition changes."""
    x, y = te.placeholder((64, 64), name="x"), te.placeholder((64, 64), name="y")
    value = te.compute(x.shape, lambda i, j: tirx.if_then_else(i < 4, y[j, i] * 2.0, te.tanh(x[i, j])), "o")
    assert stages(prim_func([x, y], value)) == ["o"]


def test_a_constant_is_packed_instead() -> None:
    x, y = te.placeholder((64, 48), name="x"), te.placeholder((48, 64), name="y")
    function = prim_func([x, y], te.compute(x.shape, lambda i, j: x[i, j] + y[j, i] * 2.0, "o"))
    assert len(with_turned_operands(function).body.block.body.seq) == 2
    assert with_turned_operands(function, [1]).same_as(function)


def test_blocks_are_turned_and_then_computed_in_vectors() -> None:
    text = source_of(both_ways(400)).definition
    assert re.search(r"transpose_f32x16\(&x_turned\[0\], 80, &x\[.+\], 400, 16, 80\);", text), text
    assert "f32x16u *)&o[" in text, text
    assert source_of(both_ways(400)).scratch_bytes <= 16 * 80 * 4 + 64, "the copy is of one block"


def test_a_tensor_that_no_block_divides_is_read_as_before() -> None:
    prime = both_ways(509)
    assert "transpose" not in source_of(prime).definition
    assert source_of(prime).scratch_bytes == 0


def test_two_operands_with_other_neighbours_are_read_as_before() -> None:
    x, y = te.placeholder((32, 48, 64), name="x"), te.placeholder((64, 32, 48), name="y")
    value = te.compute((48, 64, 32), lambda i, j, k: x[k, i, j] + y[j, k, i], "o")
    assert "transpose" not in source_of(prim_func([x, y], value)).definition


def test_an_expression_has_the_rule() -> None:
    inputs = {"x": ((64, 64), "float32")}
    program = program_from_te(lambda x: te.compute((64, 64), lambda i, j: x[j, i] * 2.0, "o"), inputs, {}, "scaled")
    (kernel,) = program.kernels
    assert (
        "transpose"
        in emit_kernel(
            replay(kernel.function, default_trace(kernel.function, wide_target())[0]), wide_target(), "k"
        ).definition
    )


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
@pytest.mark.parametrize("bits", [512, 256, 128, 0])
@pytest.mark.parametrize(
    "function", [both_ways(100), permuted((7, 7, 96), (2, 0, 1), biased=0)], ids=["square", "nhwc"]
)
def test_blocks_compile_without_warnings(function: Any, bits: int, cc: str, tmp_path: Path) -> None:
    compile_strictly(source_of(function, bits), wide_target(bits), tmp_path, cc)
    check(function, tmp_path, bits, cc)


@pytest.mark.long
@settings(costly(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), bits=st.sampled_from([512, 256]))
def test_any_order_means_the_same(data: st.DataObject, bits: int, tmp_path: Path) -> None:
    rank = data.draw(st.integers(2, 4))
    extents = st.sampled_from([1, 2, 3, 5, 7, 16, 17, 20, 33, 48, 60, 127])
    shape = data.draw(st.lists(extents, min_size=rank, max_size=rank).filter(lambda one: np.prod(one) <= 1 << 17))
    order = data.draw(st.sampled_from(list(permutations(range(rank)))))
    biased = data.draw(st.none() | st.integers(0, rank - 1))
    check(permuted(shape, order, biased=biased), tmp_path, bits)
