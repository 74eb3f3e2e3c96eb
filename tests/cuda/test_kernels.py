"""Kernels in CUDA against a reference with double sums, on the CPU; a barrier that is missing is noticed."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from edgetune.graph.program import Program
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.gpu.candidate import gpu_candidate
from edgetune.schedule.gpu.spaces import gpu_designs, proposals
from edgetune.target.cuda_toolkit import find_nvcc
from edgetune.target.tool_process import run_tool
from tests.cuda.batch import BatchError, compile_batch
from tests.cuda.cpu_check import BARRIER, barriers, checked, gpu, run, unit

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"
KERNELS = 6
# Named here, as collecting the tests is not to compile kernels.
SHARED = (
    "input and weights through shared memory",
    "the whole input in shared memory",
    "the whole input, and weights step by step, in shared memory",
    "weights through shared memory",
)
DESIGNS = ("sums split over warps", *(f"tiles of blocks: {what}" for what in SHARED))
WITH_BARRIERS = ("softmax", *(f"{design} {number}" for design in DESIGNS for number in (1, 2)))
TOLERANCE = 1e-4  # of the largest element


@cache
def program() -> Program:
    """ds_cnn: convolutions through shared memory, depthwise ones, sums over threads, several sums in one block."""
    return read_model(MODEL).program()


def test_the_program_has_as_many_kernels_as_are_checked() -> None:
    assert len(program().kernels) == KERNELS


@pytest.mark.long
def test_kernels_give_what_the_reference_gives(tmp_path: Path) -> None:
    checks = [checked(kernel, prefix=f"k{number}") for number, kernel in enumerate(program().kernels)]
    batch = compile_batch([check.case(f"k{number}") for number, check in enumerate(checks)], tmp_path)
    errors = [check.error(batch.run(number, check.buffers)) for number, check in enumerate(checks)]
    assert max(errors) < TOLERANCE


@cache
def with_barriers() -> dict[str, tuple[int, str | None]]:
    """Two kernels of each design that has barriers, and softmax: number in the program, and trace, by a name."""
    found: dict[str, tuple[int, str | None]] = {"softmax": (5, None)}
    counts: Counter[str] = Counter()
    for number, kernel in enumerate(program().kernels[:5]):
        random = np.random.default_rng(number)
        designs = len(gpu_designs(kernel.function, gpu()))
        for text, design in islice(proposals(kernel.function, gpu(), random), designs):
            if counts[design.name] < 2 and BARRIER in gpu_candidate(kernel, text, gpu()).unit:
                counts[design.name] += 1
                found[f"{design.name} {counts[design.name]}"] = (number, text)
    return found


def test_these_kernels_have_barriers() -> None:
    assert sorted(with_barriers()) == sorted(WITH_BARRIERS)


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_BARRIERS)
def test_without_any_one_of_its_barriers_a_kernel_is_stopped(name: str, tmp_path: Path) -> None:
    """No barrier is printed that orders nothing."""
    number, trace = with_barriers()[name]
    kernel = program().kernels[number]
    count = len(barriers(checked(kernel, trace=trace).source))
    variants = [checked(kernel, trace=trace, prefix=f"without_{barrier}") for barrier in range(count + 1)]
    variants[:count] = [variants[barrier].without_barrier(barrier) for barrier in range(count)]
    batch = compile_batch([one.case(f"without_{barrier}") for barrier, one in enumerate(variants)], tmp_path)
    whole = variants[count].error(batch.run(count, variants[count].buffers))
    assert whole < TOLERANCE
    missed = []
    for barrier in range(count):
        try:
            error = variants[barrier].error(batch.run(barrier, variants[barrier].buffers))
        except BatchError:
            continue
        if error < TOLERANCE:
            missed.append(barrier)
    assert missed == []


@pytest.mark.long
def test_a_barrier_that_some_threads_do_not_reach_is_reported(tmp_path: Path) -> None:
    found = checked(program().kernels[3])
    before, brace, after = found.source.definition.rpartition("}")
    text = f"{before}    if (threadIdx.x < 3) __syncthreads();\n{brace}{after}"
    done = run(found.with_text(text), tmp_path)
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.stderr == "CUDA on the CPU: only some threads of a block reach a barrier\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "old", "new", "fault"),
    [
        (2, "output[", "output[4 + ", "outside of its buffer"),
        (2, "output[", "output[1 + ", "no multiple of its size"),
        (2, "&input[", "&input[64 + ", "outside of its buffer"),
        (1, "+ thread_x] =", "+ thread_x / 2] =", "nothing orders them"),
        (2, "block_z * ", "block_z / 9 * ", "nothing orders them"),
        (3, "thread_y == 0", "thread_y < 2", "nothing orders them"),
        (4, "thread_x == 0", "thread_x < 2", "nothing orders them"),
    ],
)
def test_a_wrong_index_or_bound_is_stopped(number: int, old: str, new: str, fault: str, tmp_path: Path) -> None:
    """Also where no result is wrong: an element past the end, threads or blocks that write the same value."""
    found = checked(program().kernels[number])
    before, place, after = found.source.definition.rpartition(old)
    assert place
    done = run(found.with_text(before + new + after), tmp_path)
    assert isinstance(done, subprocess.CompletedProcess), done
    assert fault in done.stderr


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("number", range(KERNELS))
def test_nvcc_compiles_a_kernel_without_a_warning_and_ptxas_spills_nothing(number: int, tmp_path: Path) -> None:
    nvcc = find_nvcc()
    assert nvcc is not None
    source = tmp_path / "kernel.cu"
    source.write_text("#include <math.h>\n#include <stdint.h>\n" + unit(checked(program().kernels[number])))
    command = [str(nvcc), "-arch=sm_75", "-cubin", "-std=c++17", "-O3", "-Xptxas", "-v", str(source)]
    done = run_tool([*command, "-o", str(tmp_path / "kernel.cubin")], timeout_s=300)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "warning" not in said
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}
