"""An expression that reads outside of a tensor is refused, and none that does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.errors import UsageError
from edgetune.graph.evaluate import evaluate_program
from tests.te_programs import program_from_te

ZERO = tirx.const(0.0, "float32")


def built(value: Any, *shapes: tuple[int, ...], extents: tuple[int, ...] = (301,)) -> None:
    """Makes a program of `value`, which gets tensors and the variables of the results."""
    inputs = {f"x{n}": (shape, "float32") for n, shape in enumerate(shapes)}
    program_from_te(lambda *x: te.compute(extents, lambda *at: value(*x, *at), "out"), inputs, {}, "window")


@pytest.mark.parametrize(
    ("value", "element"),
    [
        (lambda x, i: x[i + 1], 301),
        (lambda x, i: x[te.max(i - 2, -1)], -1),
        (lambda x, i: te.if_then_else(i <= 300, x[i + 1], ZERO), 301),
        (lambda x, i: te.if_then_else(i < 300, ZERO, x[i + 1]), 301),
        (lambda x, i: tirx.Select(tirx.any(i < 0, x[i + 2] > 0), ZERO, x[i]), 301),
        (lambda x, i: te.exp(x[(i + 1) % 302]), 301),
    ],
)
def test_a_read_outside_of_a_tensor_is_refused(value: Any, element: int) -> None:
    sentence = f"stage 'out' of window reads element {element} of axis 0 of 'x0', which has 301: limit the index"
    with pytest.raises(UsageError, match=sentence):
        built(value, (301,))


def test_the_ends_of_many_places_are_looked_at() -> None:
    with pytest.raises(UsageError, match="reads element 2000 of axis 1 of 'x0', which has 2000"):
        built(lambda x, i, j, k: x[i, j + k], (2000, 2000), extents=(2000, 2000, 2))


@pytest.mark.parametrize(
    "value",
    [
        lambda x, i: x[te.min(i + 1, 300)],
        lambda x, i: x[(i + 1) % 301],
        lambda x, i: te.if_then_else(i < 300, x[i + 1], ZERO),
        lambda x, i: tirx.Select(i < 300, x[i + 1], ZERO),
        lambda x, i: tirx.Select(tirx.all(i < 300, x[i + 1] > 0), x[i], ZERO),
        lambda x, i: x[x[i].astype("int32")],  # not known
        lambda x, i: te.if_then_else(x[i] > 0, x[i + 1], ZERO),  # not known
    ],
)
def test_others_are_built(value: Any) -> None:
    built(value, (301,))


def test_a_selection_whose_side_reads_outside_becomes_a_branch() -> None:
    """A selection computes both sides: the C read past the end of x, although it kept no such element."""

    def expression(x: te.Tensor, z: te.Tensor) -> te.Tensor:
        return te.compute(z.shape, lambda i: tirx.Select(i < 3, x[i], z[i]) + tirx.Select(i < 9, z[i], ZERO), "out")

    program = program_from_te(expression, {"x": ((3,), "float32"), "z": ((16,), "float32")}, {}, "joined")
    text = program.kernels[0].function.script()
    assert "T.if_then_else(v_i < 3, x[v_i], z[v_i])" in text
    assert "T.Select(v_i < 9" in text
    feed = {"x": np.arange(3, dtype=np.float32), "z": np.arange(16, dtype=np.float32)}
    (answer,) = evaluate_program(program, [feed])[0].values()
    places = np.arange(16)
    np.testing.assert_array_equal(answer, places + np.where(places < 9, places, 0))
