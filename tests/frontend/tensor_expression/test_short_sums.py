"""Short sums: rows of a few results that are sums of a few terms have no reduction, and the right elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.frontend.tensor_expression.normal_form import normal_form
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.default_algorithms import default_schedule
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain


def colours(pixels: int, terms: int, results: int) -> Any:
    """A small matrix times each pixel, above zero."""
    x, w = te.placeholder((pixels, terms), name="x"), te.placeholder((results, terms), name="w")
    k = te.reduce_axis((0, terms), "k")
    mixed = te.compute((pixels, results), lambda p, c: te.sum(x[p, k] * w[c, k], axis=k), "mixed")
    zero = tirx.const(0.0, "float32")
    return prim_func([x, w], te.compute((pixels, results), lambda p, c: te.max(mixed[p, c], zero), "colours"))


def largest(pixels: int) -> Any:
    """No sum."""
    x = te.placeholder((pixels, 3, 3), name="x")
    k = te.reduce_axis((0, 3), "k")
    return prim_func([x], te.compute((pixels, 3), lambda p, c: te.max(x[p, c, k], axis=k), "largest"))


def products(count: int) -> Any:
    """Small matrices times small matrices."""
    a, b = (te.placeholder((count, 3, 3), name=name) for name in "ab")
    k = te.reduce_axis((0, 3), "k")
    return prim_func([a, b], te.compute((count, 3, 3), lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k), "c"))


@pytest.mark.parametrize(
    ("function", "reductions"),
    [
        (colours(37, 3, 3), 0),
        (colours(37, 2, 3), 0),
        (colours(37, 4, 2), 0),
        (colours(37, 3, 4), 1),
        (colours(37, 5, 3), 1),
        (colours(3, 3, 3), 1),
        (largest(37), 1),
        (products(37), 1),
    ],
)
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_short_sums(function: Any, reductions: int, cc: str, tmp_path: Path) -> None:
    changed = normal_form(function, [])
    analysis = analyse_blocks(changed)
    assert analysis is not None
    assert len(analysis.reductions) == reductions
    target = wide_target(512)
    source = emit_kernel(apply_schedule(changed, default_schedule(changed, target, 0, FORMS)[0]).module, target, "k")
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, cc)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def test_a_short_sum_keeps_the_order_of_its_terms() -> None:
    function = colours(37, 3, 3)
    store = analyse_blocks(normal_form(function, [])).stages[0].block.body  # type: ignore[union-attr]
    columns = [int(product.a.indices[1].value) for product in (store.value.a.a, store.value.a.b, store.value.b)]
    assert columns == [0, 1, 2]
