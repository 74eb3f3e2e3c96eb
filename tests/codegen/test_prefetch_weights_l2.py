"""Prefetching of weights: the lines of the next block are prefetched, no others, and the results do not change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetune.codegen import emit_kernel
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.prefetch.weights_l1 import ANNOTATION as NEAR_LINES
from edgetune.codegen.prefetch.weights_l2 import ANNOTATION
from edgetune.schedule.algorithms.apply import Scheduled, apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.schedule_text import schedule_text, trace_text
from edgetune.schedule.sketches import design_spaces
from edgetune.schedule.sketches.decisions import Chosen
from edgetune.schedule.sketches.spaces import in_blocks, postprocs, tile_of, tiled, tiles_of
from edgetune.schedule.sketches.variants import Outer, Variant
from edgetune.schedule.sketches.winograd_tile import BlockVariant
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.sketch_samples import conv2d, dense, random_arguments, run_plain

TARGET = wide_target(256)
_LINE = 16  # floats
_COUNTED = """static int asked[%(size)d];
#define __builtin_prefetch(address, write, level) (void)(asked[(address) - weights] |= (write) == 0 && (level) == 2)
"""


def by_tiles(function: Any, order: Any, sizes: Mapping[str, int], parts: int = 1) -> Scheduled:
    return by_variant(function, Variant(order, parts=parts, prefetch_weights_l2=True), sizes)


def by_variant(function: Any, variant: Variant, sizes: Mapping[str, int]) -> Scheduled:
    found = tile_of(function, TARGET)
    assert found is not None
    return scheduled(function, "direct", tiled(function, found[1], variant, Chosen(sizes), TARGET))


def by_blocks(function: Any, sizes: Mapping[str, int]) -> Scheduled:
    form = algorithm_named(function, "winograd_f2").function
    tiles = tiles_of(form, TARGET)
    assert tiles is not None
    variant = BlockVariant(copy_padded=False, prefetch_weights_l2=True)
    return scheduled(function, "winograd_f2", in_blocks(form, tiles, variant, Chosen(sizes), TARGET))


def scheduled(function: Any, form: str, sch: Any) -> Scheduled:
    sch.enter_postproc()
    assert all(post.apply(sch) for post in postprocs(TARGET))
    return apply_schedule(function, schedule_text(form, trace_text(sch.trace)))


def counted(
    source: KernelSource, weights: int, size: int, output: str, elements: int, macro: str = _COUNTED
) -> KernelSource:
    """`source` so that it asks nobody, and writes behind its `elements` results which of `size` weights it names.

    `macro` stands in for what asks.
    """
    told = f"  for (int i = 0; i < {size}; i++) {output}[{elements} + i] = (float)asked[i];\n}}\n"
    text = source.definition.rstrip().removesuffix("}") + told
    name = source.params[weights].name
    return replace(source, definition=macro.replace("weights", name) % {"size": size} + text)


PIXELS: tuple[Outer, ...] = ("channel", "pixel")
ROWS: tuple[Outer, ...] = ("channel", "row", "pixel")
POINTWISE = conv2d((5, 6, 32), 64, kernel=(1, 1), pad=(0, 0, 0, 0))
CASES: dict[str, tuple[Any, Any, int]] = {  # function, its schedule, weights of a block
    "pointwise": (f := POINTWISE, (f, ROWS, {"pixel": 3, "vectors": 2}), 512),
    "parts": (f := POINTWISE, (f, ROWS, {"pixel": 3, "vectors": 2}, 2), 512),
    "odd_rows": (f := POINTWISE, (f, ROWS, {"pixel": 6, "vectors": 2}), 512),
    "windows": (f := conv2d((4, 4, 16), 32), (f, ROWS, {"pixel": 4, "vectors": 2, "reduction2": 2}), 9 * 16 * 16),
    "product": (f := dense(12, 40, 32), (f, PIXELS, {"pixel": 4, "vectors": 1, "reduction0": 4}), 40 * 8),
    "tiles": (f := conv2d((6, 6, 16), 32), (f, {"tile_rows": 3, "tile_columns": 3, "filters": 2, "vectors": 1}), 128),
}  # fmt: skip


def asked_for(
    source: KernelSource, function: Any, made: Scheduled, block: int, folder: Path, *, whole: bool = False
) -> tuple[set[int], set[int]]:
    """(lines of the weights that `source` prefetches, those of all blocks of `block` weights but the first).

    With `whole` it does all of `function`, which is seen to.
    """
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    packed = [made.constants[i].apply(a) if i in made.constants else a for i, a in enumerate(arrays)]
    size = packed[1].size
    packed[-1] = np.zeros(expected.size + size, np.float32)
    text = counted(source, 1, size, source.params[-1].name, expected.size)
    bounds = ["-fsanitize=bounds", "-fno-sanitize-recover=bounds"]
    result = run_kernel(text, TARGET, packed, folder, extra=bounds)[-1]
    if whole:
        np.testing.assert_allclose(result[: expected.size], expected.reshape(-1), rtol=1e-4, atol=1e-4)
    asked = {int(place) // _LINE for place in np.flatnonzero(result[expected.size :])}
    return asked, set(range(block // _LINE, size // _LINE))


@pytest.mark.parametrize("name", sorted(CASES))
def test_each_block_asks_for_the_lines_of_the_next(name: str, tmp_path: Path) -> None:
    function, how, block = CASES[name]
    made = by_blocks(*how) if name == "tiles" else by_tiles(*how)
    source = emit_kernel(made.module, TARGET, "sample")
    asked, next_ones = asked_for(source, function, made, block, tmp_path, whole=True)
    assert asked <= next_ones
    # Rests of a division by the number of tiles, and what tiles at the border leave out of a sum, are not prefetched.
    assert len(asked) >= 0.8 * len(next_ones)


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("asking", [Variant(ROWS, prefetch_weights_l2=True), Variant(ROWS, prefetch_weights_l1=True)])
def test_compilers_have_nothing_to_say(compiler: str, asking: Variant, tmp_path: Path) -> None:
    function, (_, _, sizes), _ = CASES["windows"]
    source = emit_kernel(by_variant(function, asking, sizes).module, TARGET, "sample")
    assert "prefetch" in compile_strictly(source, TARGET, tmp_path, compiler)


@pytest.mark.parametrize(("cache", "annotation"), [("l2_bytes", ANNOTATION), ("l1_bytes", NEAR_LINES)])
@pytest.mark.parametrize("size", [4096, 1 << 20])
def test_only_weights_that_no_cache_keeps_are_asked_for(cache: str, annotation: str, size: int) -> None:
    board = TARGET.model_copy(update={cache: size})
    asking = {annotation in trace_text(sch.trace) for sch in design_spaces(conv2d((6, 6, 16), 32), board)}
    assert asking == ({False, True} if size == 4096 else {False})
