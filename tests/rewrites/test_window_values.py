"""What windows compute again of the same elements is stored once, and means the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen.operations import operations
from edgetune.rewrites.window_values import with_window_values
from edgetune.schedule.sketches.block_analysis import COMPUTED_ONCE, block_of
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run_plain


def stages(function: Any) -> list[str]:
    """The names of all stages; a star marks those that no reader computes again."""
    body = function.body.block.body
    blocks = [block_of(one) for one in (body.seq if isinstance(body, tirx.SeqStmt) else [body])]
    return [f"{block.name_hint}{'*' if COMPUTED_ONCE in block.annotations else ''}" for block in blocks]


def structure_tensor(rows: int = 10, columns: int = 21, taps: int = 3, *, written: bool = False) -> Any:
    """A weighted sum over windows of the product of both differences; `written`: inside the sum."""
    x, w = te.placeholder((rows + taps + 1, columns + taps + 1), name="x"), te.placeholder((taps, taps), name="w")
    shape = (rows + taps - 1, columns + taps - 1)

    def across(r: Any, c: Any) -> Any:
        return x[r + 1, c + 2] - x[r + 1, c]

    def down(r: Any, c: Any) -> Any:
        return x[r + 2, c + 1] - x[r, c + 1]

    a: Any
    d: Any
    a, d = (across, down) if written else (te.compute(shape, one, one.__name__) for one in (across, down))
    i, j = te.reduce_axis((0, taps), "i"), te.reduce_axis((0, taps), "j")

    def term(r: Any, c: Any) -> Any:
        if written:
            return a(r + i, c + j) * d(r + i, c + j) * w[i, j]
        return a[r + i, c + j] * d[r + i, c + j] * w[i, j]

    total = te.compute((rows, columns), lambda r, c: te.sum(term(r, c), axis=[i, j]), "total")
    return prim_func([x, w], te.compute((rows, columns), lambda r, c: te.sqrt(te.abs(total[r, c])), "root"))


def medians(taps: int = 5, rows: int = 16, columns: int = 21) -> Any:
    """The middle of the largest and the least of neighbours along rows, and then of those down columns."""
    x = te.placeholder((rows + taps - 1, columns + taps - 1), name="x")

    def middle(values: list[Any]) -> Any:
        least = most = values[0]
        for one in values[1:]:
            least, most = te.min(least, one), te.max(most, one)
        return (least + most) * 0.5

    along = te.compute((rows + taps - 1, columns), lambda r, c: middle([x[r, c + k] for k in range(taps)]), "along")
    return prim_func(
        [x], te.compute((rows, columns), lambda r, c: middle([along[r + k, c] for k in range(taps)]), "middles")
    )


def conditional() -> Any:
    """Windows that reach over the end of a row: there the value is computed under a condition."""
    x, i = te.placeholder((30,), name="x"), te.reduce_axis((0, 7), "i")

    def term(c: Any) -> Any:
        return tirx.if_then_else(c + i < 30, (x[c + i] - 1.0) * (x[c + i] + 2.0) * (x[c + i] + 3.0), 0.0)

    return prim_func([x], te.compute((30,), lambda c: te.sum(term(c), axis=i), "total"))


@pytest.mark.parametrize("written", [False, True])
def test_a_product_of_differences_is_computed_once(written: bool) -> None:
    """Each was computed for all nine windows around it: 6,642 operations, or 9,870 where the sum has them."""
    assert operations(with_window_values(structure_tensor(written=written))) <= 5_100


def test_a_stage_that_many_neighbours_read_is_kept() -> None:
    assert stages(with_window_values(medians())) == ["along*", "middles"]


def test_a_difference_of_two_is_cheaper_than_its_store() -> None:
    x = te.placeholder((20, 30), name="x")
    slope = te.compute((20, 29), lambda r, c: x[r, c + 1] - x[r, c], "slope")
    function = prim_func([x], te.compute((20, 28), lambda r, c: slope[r, c + 1] - slope[r, c], "bend"))
    assert stages(with_window_values(function)) == ["slope", "bend"]


def test_a_square_in_a_short_window_stays() -> None:
    """A sum takes the multiplication for nothing, and three loads are not worth another stage."""
    x, i = te.placeholder((20, 32), name="x"), te.reduce_axis((0, 3), "i")
    total = te.compute((20, 30), lambda r, c: te.sum(x[r, c + i] * x[r, c + i], axis=i), "total")
    assert stages(with_window_values(prim_func([x], total))) == ["total"]


def test_nothing_is_read_outside_of_its_condition() -> None:
    assert stages(with_window_values(conditional())) == ["total"]


@pytest.mark.parametrize(
    "function",
    [structure_tensor(), structure_tensor(written=True), structure_tensor(taps=5), medians(), medians(3, 12, 40)],
)
def test_the_results_stay_the_same(function: Any) -> None:
    arrays = random_arguments(function)
    stored = with_window_values(function)
    np.testing.assert_allclose(run_plain(stored, arrays), run_plain(function, arrays), rtol=1e-5, atol=1e-5)
    for bits in (512, 256, 0):
        assert check(stored, board(bits, 32 if bits else 0), 3) > 0


@pytest.mark.parametrize("kind", ["factor", "shift", "divisor"])
def test_the_place_in_a_window_may_be_a_number(kind: str) -> None:
    """What depends on the place other than by what is loaded there differs from window to window."""
    x, i = te.placeholder((48,), name="x"), te.reduce_axis((0, 10), "i")

    def term(c: Any) -> Any:
        place = tirx.Cast("float32", c if kind == "divisor" else i.var)
        if kind == "factor":
            return te.exp(x[c + i]) * place
        return te.exp(x[c + i] - place) if kind == "shift" else te.exp(x[c + i]) / (place + 1.0)

    function = prim_func([x], te.compute((39,), lambda c: te.sum(term(c), axis=i), "total"))
    assert stages(with_window_values(function)) == [*(["total_terms*"] if kind != "shift" else []), "total"]
    arrays = random_arguments(function)
    stored = with_window_values(function)
    np.testing.assert_allclose(run_plain(stored, arrays), run_plain(function, arrays), rtol=1e-5, atol=1e-5)
