"""Kernels in CUDA against a reference with double sums, on the CPU; a barrier that is missing is noticed."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from edgetune.graph.program import Program
from edgetune.pipeline.model_formats import read_model
from edgetune.target.cuda_toolkit import find_nvcc
from edgetune.target.tool_process import run_tool
from tests.cuda.cpu_check import barriers, checked, run, unit

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"
KERNELS = 6
TOLERANCE = 1e-4  # of the largest element


@cache
def program() -> Program:
    """ds_cnn: convolutions through shared memory, depthwise ones, sums over threads, several sums in one block."""
    return read_model(MODEL).program()


def test_the_program_has_as_many_kernels_as_are_checked() -> None:
    assert len(program().kernels) == KERNELS


@pytest.mark.parametrize("number", range(KERNELS))
def test_a_kernel_gives_what_the_reference_gives(number: int, tmp_path: Path) -> None:
    error = run(checked(program().kernels[number]), tmp_path)
    assert isinstance(error, float), error
    assert error < TOLERANCE


# By kernel, barriers between which no thread touches a word that another has written: the one thread that reads a sum
# is the one that has added its last two parts.
NEEDLESS = {0: [], 3: [], 4: [], 5: [8, 10, 19]}


@pytest.mark.parametrize("number", sorted(NEEDLESS))
def test_without_any_one_of_its_barriers_a_kernel_is_stopped(number: int, tmp_path: Path) -> None:
    found = checked(program().kernels[number])
    missed = []
    for barrier in barriers(found.source):
        error = run(found.without_barrier(barrier), tmp_path / str(barrier))
        if isinstance(error, float) and error < TOLERANCE:
            missed.append(barrier)
    assert missed == NEEDLESS[number]


def test_a_barrier_that_some_threads_do_not_reach_is_reported(tmp_path: Path) -> None:
    found = checked(program().kernels[3])
    before, brace, after = found.source.definition.rpartition("}")
    text = f"{before}    if (threadIdx.x < 3) __syncthreads();\n{brace}{after}"
    done = run(found.with_text(text), tmp_path)
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.stderr == "CUDA on the CPU: only some threads of a block reach a barrier\n"


@pytest.mark.parametrize(
    ("number", "old", "new", "fault"),
    [
        (2, "output[", "output[1 + ", "outside of its buffer"),
        (2, "= input[", "= input[64 + ", "outside of its buffer"),
        (1, "+ thread_x] =", "+ thread_x / 2] =", "nothing orders them"),
        (2, "block_z * ", "block_z / 9 * ", "nothing orders them"),
        (4, "thread_y < 1", "thread_y < 2", "nothing orders them"),
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
