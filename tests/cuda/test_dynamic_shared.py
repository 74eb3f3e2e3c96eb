"""Shared memory beyond what a block has without asking: the launch says how much, and the CPU check holds it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.codegen.cuda.emit import emit_cuda_kernel
from edgetune.codegen.packing import split_packing
from edgetune.errors import KernelFailed
from edgetune.graph.program import Kernel
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.algorithms.apply import replay_plainly
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.gpu.block_tile import BlockTile
from edgetune.schedule.gpu.spaces import gpu_designs, scheduled
from edgetune.target.cuda_toolkit import find_nvcc
from edgetune.target.tool_process import run_tool
from tests.cuda.cpu_check import Checked, checked, gpu, run, unit

TOLERANCE = 1e-4  # of the largest element
BYTES = 64 << 10  # the input, 64 pixels of 128 channels, and all weights


@cache
def kernel(folder: Path) -> Kernel:
    """A convolution of 1x1 on a small image."""
    weights = np.random.default_rng(0).standard_normal((64, 192, 1, 1), np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 192, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64, 8, 8])
    graph = helper.make_graph(nodes, "small", [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph), folder / "small.onnx")
    program = read_model(folder / "small.onnx").program()
    return next(one for one in program.kernels if one.macs)


@cache
def trace(folder: Path) -> str:
    """The whole input in shared memory, and more than 48 KiB in all."""
    function = kernel(folder).function
    for design in gpu_designs(function, gpu()):
        if isinstance(design, BlockTile) and design.staging.input == "block":
            for sizes in design.likely():
                if design.fault(sizes) is None and 4 * sum(design._copied_elements(sizes)) > 48 << 10:
                    found = scheduled(function, design, sizes)
                    assert found is not None
                    return trace_text(found.trace)
    raise AssertionError("no design has its input in more than 48 KiB")


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checked, Path]:
    folder = tmp_path_factory.mktemp("small")
    return checked(kernel(folder), trace=trace(folder)), folder


@pytest.mark.long
def test_a_kernel_asks_for_what_it_needs(check: tuple[Checked, Path], tmp_path: Path) -> None:
    source = check[0].source
    (launch,) = source.launches
    assert (48 << 10) < launch.dynamic_bytes <= gpu().most_shared_bytes
    assert launch.shared_bytes == 0
    assert "DYNAMIC_SHARED(shared);" in source.definition
    assert "float *const input_shared = (float *)(shared + " in source.definition
    error = run(check[0], tmp_path)
    assert isinstance(error, float), error
    assert error < TOLERANCE


@pytest.mark.long
def test_a_launch_that_asks_for_less_is_stopped(check: tuple[Checked, Path], tmp_path: Path) -> None:
    (launch,) = check[0].source.launches
    less = replace(check[0].source, launches=(replace(launch, dynamic_bytes=launch.dynamic_bytes - 16),))
    done = run(replace(check[0], source=less), tmp_path)
    assert isinstance(done, subprocess.CompletedProcess), done
    assert "a thread touches shared memory that the launch has not asked for" in done.stderr


@pytest.mark.long
def test_a_missing_barrier_is_noticed_there_as_well(check: tuple[Checked, Path], tmp_path: Path) -> None:
    done = run(check[0].without_barrier(0), tmp_path)
    assert isinstance(done, subprocess.CompletedProcess), done
    assert "without a barrier in between" in done.stderr


def test_a_target_that_has_less_refuses_it(check: tuple[Checked, Path]) -> None:
    text = trace(check[1])
    module, _ = split_packing(replay_plainly(kernel(check[1]).function, text))
    with pytest.raises(KernelFailed, match="shared memory"):
        emit_cuda_kernel(module, gpu().model_copy(update={"dynamic_shared_bytes_per_block": None}), "kernel")


@pytest.mark.nvcc
def test_nvcc_compiles_it_without_a_warning(check: tuple[Checked, Path], tmp_path: Path) -> None:
    nvcc = find_nvcc()
    assert nvcc is not None
    (tmp_path / "kernel.cu").write_text("#include <math.h>\n#include <stdint.h>\n" + unit(check[0]))
    command = [str(nvcc), "-arch=sm_75", "-cubin", "-std=c++17", "-O3", "kernel.cu", "-o", "kernel.cubin"]
    done = run_tool(command, timeout_s=300, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
