"""Prefetching of weights into L1: all that a block reads, a few whole steps ahead, and nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetune.codegen import emit_kernel
from edgetune.schedule.sketches.variants import Variant
from tests.codegen.test_prefetch_weights_l2 import PIXELS, POINTWISE, ROWS, TARGET, by_variant, counted
from tests.codegen_run import SANITIZERS, run_kernel
from tests.sketch_samples import conv2d, dense, random_arguments, run_plain

AHEAD = 2048
_COUNTED = """static int asked[%(size)d];
#define test__prefetch_line(from, bytes) (void)(asked[(from) - weights + (bytes) / 4] = 1)
"""
CASES: dict[str, tuple[Any, Any, Mapping[str, int], int]] = {  # function, order, sizes, bytes of a step
    "pointwise": (POINTWISE, ROWS, {"pixel": 3, "vectors": 2}, 64),
    "unrolled": (POINTWISE, ROWS, {"pixel": 3, "vectors": 2, "reduction2": 4}, 256),
    "windows": (conv2d((4, 4, 16), 32), ROWS, {"pixel": 4, "vectors": 2}, 64),
    "product": (dense(12, 40, 96), PIXELS, {"pixel": 2, "vectors": 3}, 96),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_all_that_is_read_is_asked_for_some_steps_before(name: str, tmp_path: Path) -> None:
    function, order, sizes, step = CASES[name]
    made = by_variant(function, Variant(order, prefetch_weights_l1=True), sizes)
    source = emit_kernel(made.module, TARGET, "sample")
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    packed = [made.constants[i].apply(a) if i in made.constants else a for i, a in enumerate(arrays)]
    distance = -(-AHEAD // step) * step // 4  # floats
    size = packed[1].size + distance
    packed[-1] = np.zeros(expected.size + size, np.float32)
    text = counted(source, 1, size, source.params[-1].name, expected.size, _COUNTED)
    result = run_kernel(text, TARGET, packed, tmp_path)[-1]
    np.testing.assert_allclose(result[: expected.size], expected.reshape(-1), rtol=1e-4, atol=1e-4)
    asked = {int(place) // 16 for place in np.flatnonzero(result[expected.size :])}
    assert asked == set(range(distance // 16, -(-size // 16)))


@pytest.mark.long
def test_it_goes_with_requests_for_the_next_block_and_with_parts(tmp_path: Path) -> None:
    plain, sizes = Variant(ROWS, prefetch_weights_l1=True), {"pixel": 3, "vectors": 2}
    both = replace(plain, prefetch_weights_l2=True)
    for variant in (both, replace(plain, parts=2), replace(both, parts=2), replace(plain, prefetch_outputs=True)):
        made = by_variant(POINTWISE, variant, sizes)
        source = emit_kernel(made.module, TARGET, "sample")
        assert "@prefetch_line" in source.definition
        assert ("__builtin_prefetch" in source.definition) == (variant.prefetch_weights_l2 or variant.prefetch_outputs)
        arrays = random_arguments(POINTWISE)
        expected = run_plain(POINTWISE, arrays)
        packed = [made.constants[i].apply(a) if i in made.constants else a for i, a in enumerate(arrays)]
        result = run_kernel(source, TARGET, packed, tmp_path, extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)
