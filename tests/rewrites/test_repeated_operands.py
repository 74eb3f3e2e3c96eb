"""Repeated operands: sums whose lanes divide an index read a copy with neighbours, and mean what they meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from tests.examples import costly
from tests.executed_instructions import executed
from tests.te_programs import program_from_te


def convolved(
    rows: int, columns: int, groups: int, terms: int, results: int, *, size: int = 3, offset: int = 0
) -> tuple[Program, np.ndarray, np.ndarray]:
    """A grouped convolution: its program, what its kernels compute, and the same in double precision.

    `offset` channels of the input come before those that are read.
    """

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        a, b, c = (te.reduce_axis((0, extent), name) for extent, name in ((size, "a"), (size, "b"), (terms, "c")))

        def value(i: te.Var, j: te.Var, o: te.Var) -> te.Tensor:
            return te.sum(x[i + a, j + b, o // results * terms + c + offset] * w[a, b, c, o], axis=[a, b, c])

        return te.compute((rows, columns, groups * results), value, "convolved")

    shapes = {
        "x": (rows + size - 1, columns + size - 1, groups * terms + offset),
        "w": (size, size, terms, groups * results),
    }
    random = np.random.default_rng(0)
    feed = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    program = program_from_te(compute, {name: (shape, "float32") for name, shape in shapes.items()}, {}, "made")
    (answer,) = evaluate_program(program, [feed])[0].values()
    seen = np.lib.stride_tricks.sliding_window_view(feed["x"].astype(np.float64)[..., offset:], (size, size), (0, 1))
    apart = seen.reshape(rows, columns, groups, terms, size, size)
    weights = feed["w"].reshape(size, size, terms, groups, results)
    wanted = np.einsum("ijgcab,abcgo->ijgo", apart, weights).reshape(answer.shape)
    return program, answer, wanted


@pytest.mark.long
@pytest.mark.parametrize(
    ("groups", "terms", "results", "size", "most"),
    [
        (32, 1, 2, 3, 130_000),  # a depthwise convolution with two results for each channel
        (24, 1, 3, 3, 160_000),
        (16, 4, 2, 5, 560_000),
        (32, 1, 1, 3, 21_000),  # lanes read neighbours
        (4, 4, 16, 3, 180_000),  # lanes read one element
        (4, 1, 2, 3, 56_000),  # results fill no vector
        (32, 1, 2, 1, 11_000),  # each element is read once
    ],
)
def test_lanes_that_divide_an_index_cost_no_more_than_those_of_a_copy(
    *, groups: int, terms: int, results: int, size: int, most: int, tmp_path: Path
) -> None:
    """The first three took 383,927, 452,177 and 1,287,512 instructions without a copy."""
    program, answer, wanted = convolved(16, 17, groups, terms, results, size=size)
    assert executed(program, tmp_path) < most
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(("shape", "results", "most"), [((64, 57, 57), 28, 225_000), ((1, 1, 40000), 1, 20_000)])
def test_lanes_that_do_not_repeat_read_no_such_copy(
    shape: tuple[int, int, int], results: int, most: int, tmp_path: Path
) -> None:
    """Lanes step over elements in one, and there is a single result in the other."""

    def pooled(x: te.Tensor) -> te.Tensor:
        size = int(x.shape[-1]) - 2 * (results - 1)
        i, j = te.reduce_axis((0, min(size, int(x.shape[1]))), "i"), te.reduce_axis((0, size), "j")
        rows = (int(x.shape[1]) - 1) // 2
        return te.compute(
            (shape[0], max(rows, 1), results), lambda c, h, w: te.max(x[c, h * 2 + i, w * 2 + j], axis=[i, j]), "pooled"
        )

    program = program_from_te(pooled, {"x": (shape, "float32")}, {}, "made")
    assert executed(program, tmp_path) < most


@pytest.mark.long
@costly(15)
@given(
    rows=st.integers(7, 12),
    columns=st.integers(7, 20),
    groups=st.integers(6, 20),
    terms=st.integers(1, 3),
    results=st.integers(2, 7),
    offset=st.integers(0, 2),
)
def test_a_grouped_convolution_is_right(
    rows: int, columns: int, groups: int, terms: int, results: int, offset: int
) -> None:
    _, answer, wanted = convolved(rows, columns, groups, terms, results, offset=offset)
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-4)
