"""Texts of kernels in CUDA against golden files; the same kernel is the same text twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgetune.codegen.kernel_source import Launch
from edgetune.graph.program import Kernel
from edgetune.pipeline.model_formats import read_model
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
    assert (launch.grid, launch.block, launch.dynamic_bytes, launch.shared_bytes) == ((4, 1, 1), (8, 16, 1), 0, 6912)
    assert [operand.param for operand in launch.operands] == [0, 1, 2, 3]
    assert [operand.writable for operand in launch.operands] == [False, False, False, True]
    assert source.scratch_bytes == 0


def test_the_same_kernel_is_the_same_text_twice(kernels: dict[str, Kernel]) -> None:
    assert checked(kernels["softmax"]).source == checked(kernels["softmax"]).source
