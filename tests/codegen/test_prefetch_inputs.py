"""Inputs of the next tile: each of their lines is prefetched while a tile is summed, and nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetune.codegen import emit_kernel
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.tile import find_tile
from edgetune.schedule.sketches.variants import Outer, Variant, variants_of
from edgetune.target.isa import INSTRUCTION_SETS
from tests.codegen.test_prefetch_weights_l2 import PIXELS, POINTWISE, ROWS, TARGET, by_variant, counted
from tests.codegen_run import SANITIZERS, run_kernel
from tests.sketch_samples import board, conv2d, dense, random_arguments, run_plain

FIRST: tuple[Outer, ...] = ("pixel", "channel")
STRIDED = conv2d((8, 8, 32), 64, kernel=(1, 1), pad=(0, 0, 0, 0), stride=2)
_COUNTED = """static int asked[%(size)d];
#define test__prefetch_line(from, bytes) (void)(asked[(from) - weights + (bytes) / 4] = 1)
"""
TILE = {"pixel": 3, "vectors": 2}
CASES: dict[str, tuple[Any, Any, Mapping[str, int], bool, int]] = {  # function, order, sizes, fused, floats of a move
    "rows": (POINTWISE, ROWS, TILE, False, 3 * 32),
    "unrolled": (POINTWISE, ROWS, TILE | {"reduction2": 4}, False, 3 * 32),
    "fused": (POINTWISE, PIXELS, {"pixel": 5, "vectors": 1}, True, 5 * 32),
    "channels inside": (POINTWISE, FIRST, {"pixel": 5, "vectors": 1}, True, 5 * 32),
    "two rows": (conv2d((6, 6, 32), 64, kernel=(1, 1), pad=(0, 0, 0, 0)), ROWS, TILE | {"row": 2}, False, 3 * 32),
    "product": (dense(12, 48, 96), PIXELS, {"pixel": 2, "vectors": 3}, False, 2 * 48),
    "more steps than lines": (dense(12, 64, 32), PIXELS, {"pixel": 1, "vectors": 4}, False, 64),
}


def asked_for(function: Any, variant: Variant, sizes: Mapping[str, int], move: int, folder: Path) -> set[int]:
    """Lines of the input that the kernel prefetches; it must still compute the function."""
    made = by_variant(function, variant, sizes)
    source = emit_kernel(made.module, TARGET, "sample")
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    packed = [made.constants[i].apply(a) if i in made.constants else a for i, a in enumerate(arrays)]
    size = packed[0].size + move
    packed[-1] = np.zeros(expected.size + size, np.float32)
    text = counted(source, 0, size, source.params[-1].name, expected.size, _COUNTED)
    result = run_kernel(text, TARGET, packed, folder)[-1]
    np.testing.assert_allclose(result[: expected.size], expected.reshape(-1), rtol=1e-4, atol=1e-4)
    return {int(place) // 16 for place in np.flatnonzero(result[expected.size :])}


@pytest.mark.parametrize("name", sorted(CASES))
def test_each_line_that_another_tile_reads_is_asked_for(name: str, tmp_path: Path) -> None:
    function, order, sizes, fuse, move = CASES[name]
    found = asked_for(function, Variant(order, fuse=fuse, prefetch_inputs=True), sizes, move, tmp_path)
    lines = np.prod(function.params[0].shape, dtype=int) // 16
    assert found == set(range(move // 16, move // 16 + lines))


def test_pixels_that_lie_apart_are_asked_for_one_by_one(tmp_path: Path) -> None:
    found = asked_for(STRIDED, Variant(ROWS, prefetch_inputs=True), {"pixel": 2, "vectors": 2}, 2 * 2 * 32, tmp_path)
    read = {(row * 8 + column) * 2 + half for row in range(0, 8, 2) for column in (4, 6) for half in (0, 1)}
    assert read <= found
    assert all(line // 2 % 2 == 0 for line in found)  # no pixel that the stride skips


def test_windows_at_borders_are_left_alone() -> None:
    function = conv2d((4, 4, 16), 32)
    sizes = {"pixel": 4, "vectors": 2}
    plain, prefetch_inputs = (
        by_variant(function, Variant(ROWS, prefetch_inputs=choice), sizes) for choice in (False, True)
    )
    texts = [emit_kernel(made.module, TARGET, "sample").definition for made in (plain, prefetch_inputs)]
    assert texts[0] == texts[1]


@pytest.mark.long
def test_it_goes_with_all_other_requests(tmp_path: Path) -> None:
    arrays = random_arguments(POINTWISE)
    expected = run_plain(POINTWISE, arrays)
    plain = Variant(ROWS, prefetch_inputs=True)
    for variant in (
        replace(plain, prefetch_weights_l2=True, prefetch_weights_l1=True),
        replace(plain, prefetch_outputs=True),
        replace(plain, parts=2),
    ):
        made = by_variant(POINTWISE, variant, TILE)
        packed = [made.constants[i].apply(a) if i in made.constants else a for i, a in enumerate(arrays)]
        result = run_kernel(emit_kernel(made.module, TARGET, "sample"), TARGET, packed, tmp_path, extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("cache", "asks"), [(4 * 5 * 6 * 32, False), (4 * 5 * 6 * 32 - 1, True)])
def test_inputs_that_the_second_cache_does_not_hold_are_searched_with_requests(cache: int, *, asks: bool) -> None:
    analysis = analyse_blocks(POINTWISE)
    tile = find_tile(analysis, 16) if analysis else None
    assert tile is not None
    assert any(variant.prefetch_inputs for variant in variants_of(tile, cache)) == asks
    windows = analyse_blocks(conv2d((5, 6, 32), 64))
    moving = find_tile(windows, 16) if windows else None
    assert moving is not None
    assert not any(variant.prefetch_inputs for variant in variants_of(moving, cache))


def test_without_records_they_are_asked_for() -> None:
    function = conv2d((64, 64, 64), 64, kernel=(1, 1), pad=(0, 0, 0, 0))
    assert "edgetune_next_tile" in default_trace(function, board(512, 32))[0]
    assert "edgetune_next_tile" not in default_trace(POINTWISE, board(512, 32))[0]


def test_kernels_of_microcontrollers_prefetch_nothing() -> None:
    analysis = analyse_blocks(POINTWISE)
    tile = find_tile(analysis, 1) if analysis else None
    assert tile is not None
    names = ("prefetch_inputs", "prefetch_outputs", "prefetch_weights_l1", "prefetch_weights_l2")
    sizes = 1, 1, 1  # of caches, all smaller than the tensors
    made = [variants_of(tile, *sizes, prefetches=prefetches) for prefetches in (True, False)]
    assert [any(getattr(one, name) for one in some for name in names) for some in made] == [True, False]
    assert {name for name, one in INSTRUCTION_SETS.items() if not one.prefetches} == {
        "armv6m",
        "armv7m",
        "armv7em",
        "armv8m",
        "armv8.1m",
    }
