"""NaN goes through elementwise operators as in ONNX Runtime, in the C of every kind of target and in CUDA."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.graph.evaluate import evaluate_program
from edgetune.schedule.gpu_defaults import gpu_schedules
from edgetune.schedule.kernel_spec import kernel_spec
from edgetune.target.target import load_target
from tests.codegen_run import wide_target
from tests.cuda.cpu_check import checked, gpu, run
from tests.model_in_c import arguments, outputs_in_c, program_of, source_of, values_of

_NAN = np.nan
_X = np.array(
    [
        [_NAN, 1, -2, 3, 0.5, -0.25, 0, -0.0, 9],
        [2, _NAN, -1, 0, 8, 3, -5, 1e-42, 2],
        [8, 3, _NAN, 1, -1e-42, -2, 4, 4, _NAN],
        [1, np.inf, -np.inf, 5, 2, 2, 2, 1, 1],
    ]
)
_O = np.array([[7, _NAN, 0, 1, 0.5, -0.5, 0, 0, _NAN]] * 4)
Case = tuple[str, Sequence[str], Mapping[str, Any]]
CASES: dict[str, Case] = {
    "relu": ("Relu", ["x"], {}),
    "sign": ("Sign", ["x"], {}),
    "clip": ("Clip", ["x", "low", "high"], {}),
    "max of both": ("Max", ["x", "o"], {}),
    "max of both, exchanged": ("Max", ["o", "x"], {}),
    "max with a row": ("Max", ["row", "x"], {}),
    "max of three": ("Max", ["half", "x", "o"], {}),
    "max after a constant": ("Max", ["half", "x"], {}),
    "min of both": ("Min", ["x", "o"], {}),
    "min of both, exchanged": ("Min", ["o", "x"], {}),
    "min after a constant": ("Min", ["half", "x"], {}),
    "thresholded": ("ThresholdedRelu", ["x"], {"alpha": 0.75}),
    "argmax": ("ArgMax", ["x"], {"axis": 1}),
    "argmax, last": ("ArgMax", ["x"], {"axis": 1, "keepdims": 0, "select_last_index": 1}),
    "argmin": ("ArgMin", ["x"], {"axis": 1, "keepdims": 0}),
    "argmax side by side": ("ArgMax", ["x"], {"axis": 0}),
    "argmin side by side": ("ArgMin", ["x"], {"axis": 0, "keepdims": 0}),
}
IN_C = ("max of both, exchanged", "sign", "argmax, last", "relu", "max with a row", "min after a constant")
ELSEWHERE = ("scalar", "generic-armv7")


def _model(case: Case, dtype: type) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    operator, operands, attributes = case
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    feeds: dict[str, np.ndarray] = {"x": _X.astype(dtype), "o": _O.astype(dtype), "row": _O[:1].astype(dtype)}
    weights: dict[str, np.ndarray] = {
        "low": np.asarray(-1, dtype),
        "high": np.asarray(2, dtype),
        "half": np.full((1, 9), 0.5, dtype),
    }
    used = {name: array for name, array in feeds.items() if name in operands}
    graph = helper.make_graph(
        [helper.make_node(operator, operands, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info(name, kind, array.shape) for name, array in used.items()],
        [helper.make_tensor_value_info("y", TensorProto.INT64 if operator.startswith("Arg") else kind, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items() if name in operands],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), used


def _wanted(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, dict(feeds))[0]
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * ("side by side" in name)) for name in CASES]
)
def test_references_have_nan_where_onnx_runtime_has_it(name: str) -> None:
    proto, feeds = _model(CASES[name], np.float32)
    (found,) = evaluate_program(program_of(proto), [feeds])
    np.testing.assert_array_equal(found["y"], _wanted(proto, feeds))


@pytest.mark.long
@pytest.mark.parametrize(("board", "name"), [*(("wide", name) for name in IN_C), *product(ELSEWHERE, IN_C[:3])])
def test_kernels_have_nan_where_onnx_runtime_has_it(board: str, name: str, tmp_path: Path) -> None:
    """In vectors and scalars. For vectors of ARMv7 subnormal numbers are 0, also for their sign."""
    proto, feeds = _model(CASES[name], np.float32)
    target = {"wide": wide_target(256), "scalar": wide_target(0)}.get(board) or load_target(board)
    if board == "generic-armv7":
        feeds = {key: np.where(np.abs(value) < 2.0**-126, 0, value).astype(np.float32) for key, value in feeds.items()}
    np.testing.assert_array_equal(outputs_in_c(program_of(proto), feeds, target, tmp_path)["y"], _wanted(proto, feeds))


@pytest.mark.parametrize("name", ["max of both, exchanged", "sign"])
def test_kernels_of_doubles_have_it_too(name: str, tmp_path: Path) -> None:
    proto, feeds = _model(CASES[name], np.float64)
    found = outputs_in_c(program_of(proto), feeds, wide_target(256), tmp_path)["y"]
    np.testing.assert_array_equal(found, _wanted(proto, feeds))


@pytest.mark.long
def test_threads_of_a_gpu_find_the_place_that_onnx_runtime_finds(tmp_path: Path) -> None:
    proto, feeds = _model(CASES["argmax, last"], np.float32)
    program, wanted = program_of(proto), _wanted(proto, feeds)
    (kernel,), (call,) = program.kernels, program.calls
    given = arguments(call, kernel, values_of(program, feeds))
    check = replace(checked(kernel), arrays=tuple(given), outputs=(wanted,))
    assert run(check, tmp_path) == 0


@pytest.mark.long
def test_threads_of_a_gpu_share_the_search_for_a_place() -> None:
    """TVM divides only reductions that it knows: it is told of ours."""
    proto, _ = _model(("ArgMax", ["x"], {"axis": 1}), np.float32)
    (kernel,) = program_of(proto).kernels
    traces = {name: text for text, name in gpu_schedules(kernel.function, gpu())}
    assert "__syncthreads();" in checked(kernel, trace=traces["several reductions"]).source.definition


def test_an_operand_is_computed_once() -> None:
    """A choice between operands by a test for NaN would compute a sine three times."""
    nodes = [helper.make_node("Sin", ["x"], ["s"]), helper.make_node("Max", ["o", "s"], ["y"])]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64]) for name in "xo"]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", given, [result])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (kernel,) = program_of(proto).kernels
    source = source_of(kernel, wide_target(256))
    assert source.definition.count("@sin_") == source.definition.count("@vmaximum_f32x8(") == 1


@pytest.mark.long
def test_a_bound_that_is_a_number_takes_one_instruction() -> None:
    """Relu, Clip and a maximum with a constant keep the plain maximum, whose first operand is the tensor."""
    for name in ("relu", "clip", "max after a constant", "min after a constant"):
        (kernel,) = program_of(_model(CASES[name], np.float32)[0]).kernels
        source = source_of(kernel, wide_target(256))
        assert not any("maximum" in snippet or "minimum" in snippet for snippet in source.preamble)


@pytest.mark.long
def test_a_process_that_loads_a_function_knows_its_operators() -> None:
    proto, _ = _model(CASES["max of both"], np.float32)
    (kernel,) = program_of(proto).kernels
    spec = kernel_spec(kernel, 1 << 20)
    script = "import pickle, sys; from edgetune.schedule.kernel_spec import function_of as f\n"
    script += "print('edgetune.maximum' in str(f(pickle.load(sys.stdin.buffer)).script()))"
    done = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(spec), capture_output=True, check=True)
    assert done.stdout == b"True\n"
