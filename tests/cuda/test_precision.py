"""Precision fp16 and bf16: elements of 16 bits in device memory, sums in float32, the interface as it was."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import UsageError
from edgetune.graph.precision import ALLOWED, with_precision
from edgetune.graph.program import Program
from edgetune.pipeline.model_formats import read_model
from edgetune.resources import templates_dir
from edgetune.target.cuda_toolkit import find_nvcc
from edgetune.target.preferences import Precision
from edgetune.target.tool_process import run_tool
from edgetune.verify.work_copy import work_copy
from tests.cuda.cpu_check import checked, run
from tests.distribution_sample import edgetune

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"
KERNELS = 6


@cache
def program(precision: Precision) -> Program:
    return with_precision(read_model(MODEL).program(), precision)


@pytest.mark.long
@pytest.mark.parametrize("number", range(KERNELS))
def test_a_kernel_in_fp16_gives_what_the_reference_gives(number: int, tmp_path: Path) -> None:
    error = run(checked(program("fp16").kernels[number]), tmp_path)
    assert isinstance(error, float), error
    assert error < ALLOWED["fp16"]


@pytest.mark.long
def test_a_kernel_in_bf16_gives_what_the_reference_gives(tmp_path: Path) -> None:
    check = checked(program("bf16").kernels[2])
    assert "__nv_bfloat16 *__restrict__ output" in check.source.definition
    error = run(check, tmp_path)
    assert isinstance(error, float), error
    assert error < ALLOWED["bf16"]


def test_elements_have_16_bits_in_memory_and_sums_have_32() -> None:
    text = checked(program("fp16").kernels[0]).source.definition
    assert "__shared__ __align__(16) half weights_shared[" in text
    assert "float acc[" in text
    assert "__half2float(__float2half(" not in text


def test_the_interface_of_the_model_keeps_its_types() -> None:
    plain, narrow = program("fp32"), program("fp16")
    assert (narrow.inputs, narrow.outputs) == (plain.inputs, plain.outputs)
    assert narrow.constant_bytes * 2 == plain.constant_bytes
    assert {b.dtype for b in narrow.buffers if b.kind == "intermediate"} == {"float16"}
    assert {b.dtype for b in narrow.buffers if b.kind in {"input", "output"}} == {"float32"}


def test_layers_at_the_border_of_the_model_are_kernels_of_their_own(tmp_path: Path) -> None:
    """Three equal layers: one reads the input, one writes the output, one does neither."""
    weights = numpy_helper.from_array(np.eye(16, dtype=np.float32), "w")
    nodes = [helper.make_node("MatMul", [f"t{n}", "w"], [f"t{n + 1}"]) for n in range(3)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 16]) for name in ("t0", "t3")]
    model = helper.make_model(helper.make_graph(nodes, "chain", ends[:1], ends[1:], [weights]))
    onnx.save(model, tmp_path / "chain.onnx")
    plain = read_model(tmp_path / "chain.onnx").program()
    narrow = with_precision(plain, "fp16")
    assert [call.kernel for call in plain.calls] == [0, 0, 0]
    types = [[param.dtype for param in narrow.kernels[call.kernel].params] for call in narrow.calls]
    assert types == [
        ["float32", "float16", "float16"],
        ["float16", "float16", "float16"],
        ["float16", "float16", "float32"],
    ]


@pytest.mark.long
def test_a_kernel_that_only_moves_elements_to_an_output_widens_them(tmp_path: Path) -> None:
    """The output of a convolution is transposed; its elements in memory are those of the model's output."""
    weights = numpy_helper.from_array(np.ones((8, 8, 3, 3), np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4), helper.make_node("Relu", ["c"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 6, 6]) for name in "xy"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])), tmp_path / "conv.onnx")
    narrow = with_precision(read_model(tmp_path / "conv.onnx").program(), "fp16")
    last = narrow.kernels[narrow.calls[-1].kernel]
    assert "transpose" in last.name
    assert [str(param.dtype) for param in last.function.params] == ["float16", "float32"]
    check = checked(last)
    assert "float *__restrict__ output" in check.source.definition
    error = run(check, tmp_path)
    assert isinstance(error, float), error
    assert error < ALLOWED["fp16"]


_CONVERT = """
#include "cuda_runtime.h"
#include <stdio.h>
int main()
{
    float x;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        x = __half2float(half{(uint16_t)bits});
        fwrite(&x, sizeof x, 1, stdout);
        x = __bfloat162float(__nv_bfloat16{(uint16_t)bits});
        fwrite(&x, sizeof x, 1, stdout);
    }
    while (fread(&x, sizeof x, 1, stdin) == 1) {
        const half h = __float2half(x);
        const __nv_bfloat16 b = __float2bfloat16(x);
        fwrite(&h, sizeof h, 1, stdout);
        fwrite(&b, sizeof b, 1, stdout);
    }
    return 0;
}
"""


@pytest.mark.long
def test_conversions_of_the_cpu_check_are_those_of_ieee_754(tmp_path: Path) -> None:
    """Every number of 16 bits, and floats that lie between two of them, are subnormal, or too large."""
    (tmp_path / "convert.cpp").write_text(_CONVERT)
    include = f"-I{templates_dir() / 'package/cuda'}"
    subprocess.run(["g++", "-O1", "-std=c++17", include, "convert.cpp", "-o", "convert"], cwd=tmp_path, check=True)
    every = np.arange(65536, dtype=np.uint16)
    halves, brains = every.view(np.float16).astype(np.float32), every.view(ml_dtypes.bfloat16).astype(np.float32)
    random = np.random.default_rng(0)
    floats = random.standard_normal(10000, np.float32) * np.exp2(random.integers(-30, 20, 10000)).astype(np.float32)
    with np.errstate(invalid="ignore"):
        middles = (halves[:-1] + halves[1:]) / 2
    border = np.array([65519.9, 65520, 1e-8, 2**-25, np.inf, -np.inf], np.float32)
    given = np.concatenate([halves, middles, floats, border])
    given = given[~np.isnan(given)]
    done = subprocess.run(["./convert"], cwd=tmp_path, input=given.tobytes(), capture_output=True, check=True)
    wide = np.frombuffer(done.stdout[: 65536 * 8], np.float32).reshape(-1, 2)
    np.testing.assert_array_equal(wide[:, 0], halves)
    np.testing.assert_array_equal(wide[:, 1], brains)
    narrow = np.frombuffer(done.stdout[65536 * 8 :], np.uint16).reshape(-1, 2)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrow[:, 0], given.astype(np.float16).view(np.uint16))
        np.testing.assert_array_equal(narrow[:, 1], given.astype(ml_dtypes.bfloat16).view(np.uint16))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fp16")
    words = ["build", str(MODEL), "--board", "cuda-generic", "--precision", "fp16", "-o", "ds_cnn"]
    done = edgetune(words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "ds_cnn"


@pytest.mark.long
def test_a_package_in_fp16_passes_its_self_test_with_the_tolerance_of_fp16(package: Path) -> None:
    """Building it ran the self-test."""
    manifest = json.loads((package / "MANIFEST.json").read_text())
    (output,) = manifest["outputs"]
    assert (output["dtype"], output["tolerance"]["relative"]) == ("float32", ALLOWED["fp16"])


@pytest.mark.long
@pytest.mark.nvcc
def test_make_compiles_a_package_in_fp16_without_a_warning(package: Path) -> None:
    nvcc = find_nvcc()
    assert nvcc is not None
    with work_copy(package) as (copy, _):
        done = run_tool(["make", "-s", f"NVCC={nvcc}", "CUDA_ARCH=75 80 90"], timeout_s=300, folder=copy)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.long
@pytest.mark.parametrize(
    ("board", "precision", "sentence"),
    [
        ("host", "fp16", "packages for board 'host' compute in fp32: ask for --precision fp32"),
        ("cuda-generic", "bf16", "packages for board 'cuda-generic' compute in fp32 or fp16"),
    ],
)
def test_a_precision_that_a_board_lacks_is_refused(board: str, precision: str, sentence: str, tmp_path: Path) -> None:
    done = edgetune(["build", str(MODEL), "--board", board, "--precision", precision], cwd=tmp_path)
    assert done.returncode == UsageError.exit_code
    assert sentence in done.stderr
    assert not (tmp_path / "build").exists()


@pytest.mark.long
def test_a_reduction_of_a_model_in_16_bits_is_joined_in_32(tmp_path: Path) -> None:
    """ONNX's own float16: registers hold floats, and warps exchange them; whole rows of 6 sum up in every lane."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [3, 6]) for name in "xy"]
    model = helper.make_model(helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "row", ends[:1], ends[1:]))
    onnx.save(model, tmp_path / "row.onnx")
    check = checked(read_model(tmp_path / "row.onnx").program().kernels[0])
    text = check.source.definition
    assert "warp_sum_f32(acc_1, 32)" in text
    assert re.search(r"float \w*sum\[1\]", text)
    assert "float partial[" in text
    assert not re.search(r"float \w+ = __float2half", text)
    error = run(check, tmp_path)
    assert isinstance(error, float), error
    assert error < ALLOWED["fp16"]
