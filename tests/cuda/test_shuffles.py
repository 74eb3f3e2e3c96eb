"""Reductions over threads by shuffles of warps, and the CPU check of shuffles: a wrong lane is noticed."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from edgetune.codegen.cuda import maths, warp_reduction
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.gpu.design import first_choice
from edgetune.schedule.gpu.spaces import gpu_designs
from tests.cuda.cpu_check import BARRIER, Checked, checked, gpu, run

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"
TOLERANCE = 1e-4  # of the largest element
CLASSIFIER, SOFTMAX = 4, 5


@cache
def kernel(number: int) -> Checked:
    return checked(read_model(MODEL).program().kernels[number])


def test_a_reduction_over_warps_meets_once_in_shared_memory() -> None:
    """256 threads: eight warps reduce their own values, then every warp those of all; not eight halving steps."""
    text = kernel(SOFTMAX).source.definition
    assert text.count("warp_max_f32(") == text.count("warp_sum_f32(") == 2
    assert text.count(BARRIER) == 4


@pytest.mark.long
def test_a_product_with_a_vector_is_summed_by_the_lanes_of_a_warp_without_a_barrier() -> None:
    """The formula prefers it to a join in shared memory."""
    source = kernel(CLASSIFIER).source
    assert "warp_sum_f32(acc, 32)" in source.definition
    assert BARRIER not in source.definition
    assert source.launches[0].shared_bytes == 0


def test_the_formula_weighs_shuffles_against_shared_memory() -> None:
    function = read_model(MODEL).program().kernels[CLASSIFIER].function
    found = {design.name: design for design in gpu_designs(function, gpu())}
    costs = {name: design.cycles(sizes) for name, design in found.items() if (sizes := first_choice(design))}
    assert min(costs, key=lambda name: costs[name]) == "sums shared by the lanes of a warp"


_WRONG = (
    ("width / 2", "width / 4"),  # half of the lanes are left out
    ("value, step)", "value, step ^ 1)"),  # another lane
    ("value += other", "value = other"),
)


@pytest.mark.long
@pytest.mark.parametrize(("old", "new"), _WRONG)
def test_a_wrong_shuffle_gives_a_wrong_result(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = warp_reduction.warp_function
    monkeypatch.setattr(maths, "warp_function", lambda name, of: given(name, of).replace(old, new))
    assert new in maths.render_device_preamble(["warp_sum:f32"], "check")
    error = run(kernel(CLASSIFIER), tmp_path)
    assert not isinstance(error, float) or error > TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("value, step)", "value, step + 32)", "a shuffle reads a lane that does not take part"),
        ("0xffffffffu", "0xffffu", "a shuffle reads a lane that does not take part"),
        ("step = width / 2", "step = threadIdx.x < 8 ? 0 : width / 2", "only some lanes of a warp reach a shuffle"),
    ],
)
def test_a_lane_that_is_not_there_is_reported(
    old: str, new: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = warp_reduction.warp_function
    monkeypatch.setattr(maths, "warp_function", lambda name, of: given(name, of).replace(old, new))
    done = run(kernel(CLASSIFIER), tmp_path)
    assert isinstance(done, subprocess.CompletedProcess), done
    assert fault in done.stderr


@pytest.mark.long
def test_lanes_that_wait_for_their_warp_go_on_together(tmp_path: Path) -> None:
    found = kernel(CLASSIFIER)
    before, brace, after = found.source.definition.partition("{\n")
    text = f"{before}{brace}    __syncwarp();\n{after}"
    error = run(replace(found, source=replace(found.source, definition=text)), tmp_path)
    assert isinstance(error, float), error
    assert error < TOLERANCE
