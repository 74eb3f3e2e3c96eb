"""Requests a few steps ahead: for all that a block reads, at a distance of whole steps, and nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetune.codegen import emit_kernel
from edgetune.codegen.kernel_source import KernelSource
from edgetune.tuning.forms.realise import Scheduled, realise
from edgetune.tuning.genome import trace_text
from edgetune.tuning.sketches import design_spaces
from edgetune.tuning.sketches.decisions import Chosen
from edgetune.tuning.sketches.register_tile import Variant
from edgetune.tuning.sketches.spaces import postprocs, tile_of, tiled
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.sketch_samples import conv2d, dense, random_arguments, run_plain

TARGET = wide_target(256)
AHEAD = 2048
_COUNTED = """static int asked[%(size)d];
#define et_ask_ahead(from, bytes) (void)(asked[(from) - weights + (bytes) / 4] = 1)
"""
POINTWISE = conv2d((5, 6, 32), 64, kernel=(1, 1), pad=(0, 0, 0, 0))
CASES: dict[str, tuple[Any, Any, Mapping[str, int], int]] = {  # function, order, sizes, bytes of a step
    "pointwise": (POINTWISE, ("channel", "row", "pixel"), {"pixel": 3, "vectors": 2}, 64),
    "unrolled": (POINTWISE, ("channel", "row", "pixel"), {"pixel": 3, "vectors": 2, "reduction2": 4}, 256),
    "windows": (conv2d((4, 4, 16), 32), ("channel", "row", "pixel"), {"pixel": 4, "vectors": 2}, 64),
    "product": (dense(12, 40, 96), ("channel", "pixel"), {"pixel": 2, "vectors": 3}, 96),
}


def scheduled(function: Any, order: Any, sizes: Mapping[str, int], **variant: Any) -> Scheduled:
    found = tile_of(function, TARGET)
    assert found is not None
    sch = tiled(function, found[1], Variant(order, near=True, **variant), Chosen(sizes), TARGET)
    sch.enter_postproc()
    assert all(post.apply(sch) for post in postprocs(TARGET))
    return realise(function, trace_text(sch.trace))


def counted(source: KernelSource, size: int, elements: int) -> KernelSource:
    """`source` so that it asks nobody, and writes behind its `elements` results which floats it names the places of."""
    weights, output = source.params[1].name, source.params[-1].name
    told = f"  for (int i = 0; i < {size}; i++) {output}[{elements} + i] = (float)asked[i];\n}}\n"
    text = source.definition.rstrip().removesuffix("}") + told
    return replace(source, definition=_COUNTED.replace("weights", weights) % {"size": size} + text)


@pytest.mark.parametrize("name", sorted(CASES))
def test_all_that_is_read_is_asked_for_some_steps_before(name: str, tmp_path: Path) -> None:
    function, order, sizes, step = CASES[name]
    made = scheduled(function, order, sizes)
    source = emit_kernel(made.module, TARGET, "sample")
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    packed = [made.constants[i].apply(a) if i in made.constants else a for i, a in enumerate(arrays)]
    distance = -(-AHEAD // step) * step // 4  # floats
    size = packed[1].size + distance
    packed[-1] = np.zeros(expected.size + size, np.float32)
    result = run_kernel(counted(source, size, expected.size), TARGET, packed, tmp_path)[-1]
    np.testing.assert_allclose(result[: expected.size], expected.reshape(-1), rtol=1e-4, atol=1e-4)
    asked = {int(place) // 16 for place in np.flatnonzero(result[expected.size :])}
    assert asked == set(range(distance // 16, -(-size // 16)))


def test_it_goes_with_requests_for_the_next_block_and_with_parts(tmp_path: Path) -> None:
    order, sizes = ("channel", "row", "pixel"), {"pixel": 3, "vectors": 2}
    for more in ({"prefetch": True}, {"parts": 2}, {"prefetch": True, "parts": 2}, {"ahead": True}):
        made = scheduled(POINTWISE, order, sizes, **more)
        source = emit_kernel(made.module, TARGET, "sample")
        assert "et_ask_ahead" in source.definition
        assert ("__builtin_prefetch" in source.definition) == ("prefetch" in more or "ahead" in more)
        arrays = random_arguments(POINTWISE)
        expected = run_plain(POINTWISE, arrays)
        packed = [made.constants[i].apply(a) if i in made.constants else a for i, a in enumerate(arrays)]
        result = run_kernel(source, TARGET, packed, tmp_path, extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_compilers_have_nothing_to_say(compiler: str, tmp_path: Path) -> None:
    function, order, sizes, _ = CASES["windows"]
    source = emit_kernel(scheduled(function, order, sizes).module, TARGET, "sample")
    assert "prefetch" in compile_strictly(source, TARGET, tmp_path, compiler)


@pytest.mark.parametrize("cache", [4096, 1 << 20])
def test_only_weights_that_exceed_the_first_cache_are_asked_for(cache: int) -> None:
    board = TARGET.model_copy(update={"l1_bytes": cache})
    asking = {"edgetune_near_lines" in trace_text(sch.trace) for sch in design_spaces(conv2d((6, 6, 16), 32), board)}
    assert asking == ({False, True} if cache == 4096 else {False})
