"""Maxima and minima along an axis on a GPU: threads share them, and rows of infinities keep their value."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.backends.gpu_registers import printed_defaults
from edgetune.graph.program import Kernel
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.gpu_defaults import gpu_schedules
from tests.cuda.cpu_check import checked, gpu, run

ROWS, COLUMNS = 8, 1000
SHARED = "several reductions"  # its rule gives each row to the threads of a block


def extremum(folder: Path, operator: str) -> Kernel:
    """The kernel of ReduceMax or ReduceMin over the last axis, which stays with length 1."""
    axes = onnx.numpy_helper.from_array(np.array([1], np.int64), "axes")
    given = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [ROWS, COLUMNS])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    node = onnx.helper.make_node(operator, ["x", "axes"], ["y"])
    graph = onnx.helper.make_graph([node], "extremum", [given], [result], [axes])
    path = folder / "extremum.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), path)
    (kernel,) = read_model(path).program().kernels
    return kernel


@pytest.mark.long
@pytest.mark.parametrize(("operator", "numpy_function"), [("ReduceMax", np.max), ("ReduceMin", np.min)])
def test_threads_share_a_row_and_infinities_keep_their_value(
    operator: str, numpy_function: np.ufunc, tmp_path: Path
) -> None:
    kernel = extremum(tmp_path, operator)
    given = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    given[1], given[2] = -np.inf, np.inf
    schedules = {name: text for text, name in gpu_schedules(kernel.function, gpu())}
    assert SHARED in schedules
    for number, text in enumerate(schedules.values()):
        check = checked(kernel, trace=text)
        wanted = numpy_function(given, axis=1, keepdims=True)
        check = replace(check, arrays=(given, np.zeros((ROWS, 1), np.float32)), outputs=(wanted,))
        assert run(check, tmp_path / str(number)) == 0


def test_without_nvcc_the_first_schedule_with_a_text_is_taken(tmp_path: Path) -> None:
    ((_, note),) = printed_defaults([extremum(tmp_path, "ReduceMax")], gpu())
    assert note == SHARED


@pytest.mark.long
def test_a_process_that_registers_extrema_ends_in_order() -> None:
    """TVM's table of reductions is freed after the interpreter, and with it functions that only it refers to."""
    script = "from edgetune.codegen.infinite_extrema import register_infinite_extrema as f; f()"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
