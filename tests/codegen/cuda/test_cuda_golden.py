"""Texts of kernels in CUDA against golden files; the same kernel is the same text twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tvm import te, topi

from edgetune.codegen.cuda.emit import emit_cuda_kernel
from edgetune.codegen.kernel_source import Launch
from edgetune.errors import KernelFailed
from edgetune.graph.program import Kernel
from edgetune.pipeline.boards import load_board
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.algorithms.apply import replay_plainly
from edgetune.schedule.gpu_defaults import default_gpu_schedule
from edgetune.target.gpu import GpuTarget
from tests.cuda.cpu_check import checked, unit

MODEL = Path(__file__).parents[3] / "examples/models/ds_cnn.onnx"


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    program = read_model(MODEL).program()
    names = ("convolution", "depthwise", "pointwise", "average", "classifier", "softmax")
    return dict(zip(names, program.kernels, strict=True))


@pytest.mark.parametrize("name", ["depthwise", "pointwise", "classifier"])
def test_kernels_are_written_as_the_golden_files_say(
    name: str, kernels: dict[str, Kernel], golden: Callable[[str, str], None]
) -> None:
    golden(f"codegen/{name}.cu", unit(checked(kernels[name])))


def test_launches_are_data(kernels: dict[str, Kernel]) -> None:
    source = checked(kernels["pointwise"]).source
    (launch,) = source.launches
    assert isinstance(launch, Launch)
    assert (launch.grid, launch.block, launch.dynamic_bytes, launch.shared_bytes) == (
        (2, 1, 5),
        (8, 5, 5),
        0,
        14592,
    )
    assert [operand.param for operand in launch.operands] == [0, 1, 2, 3]
    assert [operand.writable for operand in launch.operands] == [False, False, False, True]
    assert source.scratch_bytes == 0


def test_the_same_kernel_is_the_same_text_twice(kernels: dict[str, Kernel]) -> None:
    assert checked(kernels["softmax"]).source == checked(kernels["softmax"]).source


def test_a_grid_that_no_gpu_has_is_refused() -> None:
    """The CPU check would run it: a GPU has at most 65,535 blocks along y."""
    a, b = te.placeholder((70000, 16, 16), name="a"), te.placeholder((70000, 16, 16), name="b")
    function = te.create_prim_func([a, b, topi.nn.batch_matmul(a, b, transpose_b=False)])
    gpu = load_board("cuda-generic").target
    assert isinstance(gpu, GpuTarget)
    scheduled = replay_plainly(function, default_gpu_schedule(function, gpu)[0])
    with pytest.raises(KernelFailed, match="is more than a GPU has"):
        emit_cuda_kernel(scheduled, gpu, "kernel")
