"""Lines of an output that no cache keeps: prefetched before the sums, and the results do not change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, topi

from edgetune.codegen import emit_kernel
from edgetune.codegen.prefetch.outputs import ANNOTATION
from edgetune.schedule.algorithms.apply import Scheduled, apply_schedule
from edgetune.schedule.algorithms.schedule_text import schedule_text, trace_text
from edgetune.schedule.sketches import design_spaces
from edgetune.schedule.sketches.decisions import Chosen
from edgetune.schedule.sketches.spaces import mutator_probs, postprocs, tile_of, tiled
from edgetune.schedule.sketches.variants import Variant
from edgetune.search.candidate import CandidateGenerator
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.sketch_samples import conv2d, prim_func, random_arguments, run_plain

_LINE = 16  # floats
_COUNTED = """static int written[%(size)d], read[%(size)d];
#define __builtin_prefetch(address, write, level) \\
  (void)((write) ? (written[(address) - %(output)s] += (level) == 3) \\
                 : (read[(const float *)(address) - %(added)s] += (level) == 3))
"""


def summed(pixels: int, depth: int, channels: int) -> Any:
    """A matrix product, to which a bias and a matrix are added."""
    x, w = te.placeholder((pixels, depth), name="x"), te.placeholder((depth, channels), name="w")
    bias, more = te.placeholder((channels,), name="bias"), te.placeholder((pixels, channels), name="more")
    return prim_func([x, w, bias, more], topi.add(topi.add(topi.nn.matmul(x, w), bias), more), [1])


def made(function: Any, board: Any) -> Scheduled:
    found = tile_of(function, board)
    assert found is not None
    sizes = Chosen({"pixel": 3, "vectors": 512 // board.vector_bits, "reduction0": 2})
    sch = tiled(function, found[1], Variant(("channel", "pixel"), prefetch_outputs=True), sizes, board)
    sch.enter_postproc()
    assert all(post.apply(sch) for post in postprocs(board))
    return apply_schedule(function, schedule_text("direct", trace_text(sch.trace)))


@pytest.mark.parametrize("bits", [512, 256, 128])
def test_each_line_of_the_output_and_of_what_is_added_is_asked_for(bits: int, tmp_path: Path) -> None:
    board, function = wide_target(bits), summed(9, 16, 64)
    scheduled = made(function, board)
    source = emit_kernel(scheduled.module, board, "sample")
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    packed = [scheduled.constants[i].apply(a) if i in scheduled.constants else a for i, a in enumerate(arrays)]
    size, output, added = expected.size, source.params[-1].name, source.params[-2].name
    packed[-1] = np.zeros(3 * size, np.float32)
    told = [f"  for (int i = 0; i < {size}; i++) {{", f"    {output}[{size} + i] = (float)written[i];"]
    told += [f"    {output}[{2 * size} + i] = (float)read[i];", "  }", "}", ""]
    text = source.definition.rstrip().removesuffix("}") + "\n".join(told)
    counted = _COUNTED % {"size": size, "output": output, "added": added}
    result = run_kernel(replace(source, definition=counted + text), board, packed, tmp_path)[-1].reshape(3, size)
    np.testing.assert_allclose(result[0], expected.reshape(-1), rtol=1e-4, atol=1e-4)
    once = (np.arange(size) % _LINE == 0).astype(np.float32)
    np.testing.assert_array_equal(result[1], once)
    np.testing.assert_array_equal(result[2], once)


def test_what_is_read_on_a_condition_is_not_asked_for() -> None:
    """Where the condition does not hold its place need not exist: here the row in front of the first."""
    x, w = te.placeholder((9, 16), name="x"), te.placeholder((16, 64), name="w")
    more = te.placeholder((9, 64), name="more")
    product = topi.nn.matmul(x, w)
    shifted = te.compute(
        (9, 64), lambda i, j: product[i, j] + te.if_then_else(i > 0, more[i - 1, j], 0.0), name="shifted"
    )
    source = emit_kernel(made(prim_func([x, w, more], shifted, [1]), wide_target()).module, wide_target(), "sample")
    asked = [line for line in source.definition.splitlines() if "__builtin_prefetch" in line]
    assert len(asked) == 1
    assert source.params[-1].name in asked[0]


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_compilers_have_nothing_to_say(compiler: str, tmp_path: Path) -> None:
    source = emit_kernel(made(summed(9, 16, 64), wide_target()).module, wide_target(), "sample")
    assert "prefetch" in compile_strictly(source, wide_target(), tmp_path, compiler)


def annotated(sch: Any) -> bool:
    return ANNOTATION in trace_text(sch.trace)


@pytest.mark.parametrize("cache", [1024, 1 << 20])
def test_only_outputs_that_no_cache_keeps_may_be_asked_for(cache: int) -> None:
    board = wide_target(256).model_copy(update={"l2_bytes": cache})
    asking = {annotated(sch) for sch in design_spaces(conv2d((6, 6, 16), 32), board)}
    assert asking == ({False, True} if cache == 1024 else {False})


def test_an_annotation_is_tried_on_what_was_found_without_it() -> None:
    board = wide_target(256).model_copy(update={"l2_bytes": 1024})
    designs = design_spaces(conv2d((6, 6, 16), 32), board)
    genetics = CandidateGenerator(designs, mutator_probs())
    for number, sch in enumerate(designs):
        own = genetics.read(trace_text(sch.trace))
        assert own is not None
        assert own.design == number
        relatives = genetics.relatives(trace_text(sch.trace))
        assert relatives
        for relative in relatives:
            other = genetics.designs[relative.design].trace(relative.decisions)
            assert relative.design != number
            texts = [_without_annotations(trace) for trace in (sch.trace, other)]
            assert texts[0] == texts[1]


def _without_annotations(trace: Any) -> list[Any]:
    instructions, decisions = json.loads(trace_text(trace))
    return [[item for item in instructions if item[0] != "Annotate"], [decision for _, decision in decisions]]
