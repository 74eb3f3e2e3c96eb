"""Traces replay to the same program, fixed schedules never fail, and what does not fit is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, topi
from tvm_ffi import structural_equal

from edgetune.errors import KernelFailed
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import read_onnx
from edgetune.graph.partition import to_program
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.default_schedule import default_guess, default_trace
from edgetune.schedule.sketches import design_spaces, postprocs
from edgetune.schedule.sketches.after_schedule import rewrite_scheduled
from edgetune.schedule.sketches.limits import footprint
from edgetune.schedule.sketches.spaces import limits
from tests.sketch_samples import board, conv2d, dense, prim_func, random_arguments, run, run_plain

MODELS = Path(__file__).parents[2] / "examples" / "models"


@pytest.mark.long
@pytest.mark.parametrize("model", ["ds_cnn", "resnet8", "ad_ae"])
def test_every_kernel_of_a_model_has_a_fixed_schedule_and_round_trips(model: str) -> None:
    target = board(512, 32)
    for kernel in to_program(import_onnx(read_onnx(MODELS / f"{model}.onnx"))).kernels:
        trace, note = default_trace(kernel.function, target)
        assert "plain" not in note, kernel.name
        assert structural_equal(replay(kernel.function, trace), replay(kernel.function, trace))
        assert default_trace(kernel.function, target) == (trace, note)
        for design in design_spaces(kernel.function, target):
            design.enter_postproc()
            if all(post.apply(design) for post in postprocs(target)):
                replayed = replay(kernel.function, trace_text(design.trace))
                assert structural_equal(replayed, rewrite_scheduled(design.mod)), kernel.name


@pytest.mark.parametrize("bits", [0, 128, 256, 512])
def test_fixed_schedules_are_right_and_within_limits(bits: int) -> None:
    target = board(bits, 32 if bits in {128, 512} else 16 if bits else 0)
    for function in (conv2d((9, 7, 8), 24, stride=2), conv2d((6, 6, 16), 16, groups=16), dense(1, 50, 40)):
        trace, _ = default_trace(function, target)
        arrays = random_arguments(function)
        mod = replay(function, trace)
        np.testing.assert_allclose(run(mod, arrays), run_plain(function, arrays), rtol=1e-4, atol=1e-4)
        assert footprint(mod).tile_bytes <= limits(target).tile_bytes


def test_what_no_rule_fits_stays_plain_loops_and_says_so() -> None:
    x = te.placeholder((4, 5), name="x")
    y = te.extern((4, 5), [x], lambda ins, outs: _copied(ins[0], outs[0]), name="opaque")
    found = default_guess(prim_func([x], y), board())
    assert "plain loops" in found.note
    assert found.share == 0
    assert replay(prim_func([x], y), found.trace) is not None


def _copied(source: Any, destination: Any) -> Any:
    from tvm.script.ir_builder import IRBuilder
    from tvm.script.ir_builder import tirx as builder

    with IRBuilder() as ib:
        with builder.serial(4) as i, builder.serial(5) as j:
            builder.buffer_store(destination, source[i, j], [i, j])
        return ib.get()


ABSENT = '[[["GetSBlock", [], ["absent", "main"], ["b0"]]], []]'


@pytest.mark.parametrize("text", ["", "[]", "{}", "[[], [[1]]]", ABSENT])
def test_a_trace_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(KernelFailed):
        replay(dense(1, 4, 4), text)


def test_a_trace_of_another_shape_is_refused_or_right() -> None:
    x = te.placeholder((3, 4), name="x")
    trace, _ = default_trace(conv2d((8, 8, 8), 16), board())
    with pytest.raises(KernelFailed):
        replay(prim_func([x], topi.nn.relu(x)), trace)
