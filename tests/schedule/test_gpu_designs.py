"""Designs for GPUs: what passes the decision test compiles within the target, and the limits hold as stated."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from edgetune.codegen.cuda.emit import emit_cuda_kernel
from edgetune.codegen.packing import split_packing
from edgetune.graph.program import Program
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.algorithms.apply import replay_plainly
from edgetune.schedule.gpu.design import BlockLimits, LoopSplit, first_choice, sizes_of
from edgetune.schedule.gpu.spaces import gpu_designs, proposals, scheduled
from edgetune.search.candidate import DesignSpace
from tests.cuda.cpu_check import checked, gpu, run

TOLERANCE = 1e-4  # of the largest element
MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"


@pytest.fixture(scope="module")
def program() -> Program:
    return read_model(MODEL).program()


@pytest.mark.long
@pytest.mark.parametrize("number", range(5))
def test_each_design_s_random_decisions_give_right_results(number: int, program: Program, tmp_path: Path) -> None:
    kernel = program.kernels[number]
    designs = len(gpu_designs(kernel.function, gpu()))
    random = np.random.default_rng(number)
    for place, (text, design) in enumerate(islice(proposals(kernel.function, gpu(), random), designs)):
        error = run(checked(kernel, trace=text), tmp_path / str(place))
        assert isinstance(error, float), (design.name, error)
        assert error < TOLERANCE, design.name


@pytest.mark.long
def test_what_a_block_has_is_what_its_decisions_said(program: Program) -> None:
    """A kernel has as many threads as its decisions, and no more shared memory than they were tested with."""
    random = np.random.default_rng(3)
    for kernel in program.kernels[:5]:
        for text, _ in islice(proposals(kernel.function, gpu(), random), 10):
            module, _ = split_packing(replay_plainly(kernel.function, text))
            (launch,) = emit_cuda_kernel(module, gpu(), "kernel").launches
            assert launch.shared_bytes <= gpu().shared_bytes_per_block
            assert launch.block[0] * launch.block[1] * launch.block[2] <= 1024


def test_decisions_are_read_back_from_a_trace_in_the_order_of_the_choices(program: Program) -> None:
    """The decision test reads decision vectors of the search, without names."""
    for kernel in program.kernels[:5]:
        for design in gpu_designs(kernel.function, gpu()):
            sizes = first_choice(design)
            assert sizes is not None
            assert design.fault(sizes) is None
            schedule = scheduled(kernel.function, design, sizes)
            assert schedule is not None
            space = DesignSpace(schedule.trace)
            assert sizes_of(design, space.decisions(schedule.trace)) == sizes


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "words"),
    [
        (2048, 32, 0, "2048 threads are more than a block has"),
        (16, 32, 0, "16 threads leave most of a warp idle"),
        (1024, 65, 0, "65 registers of a thread are more than 1024 threads have"),
        (256, 32, 65537, "65537 bytes of shared memory are more than a block has"),
    ],
)
def test_what_a_block_lacks_is_named(threads: int, registers: int, shared: int, words: str) -> None:
    assert words in str(BlockLimits.of(gpu()).fault(threads, registers, shared))


def test_the_options_of_a_choice_are_all_of_its_splits() -> None:
    assert set(LoopSplit("pixel", 12, 3, 2).options()) == {
        (outer, 12 // inner // outer, inner) for inner in (1, 2) for outer in range(1, 13) if 12 // inner % outer == 0
    }
