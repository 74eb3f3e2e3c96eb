"""Judges one case: imported, through the passes, lowered, evaluated without a compiler, compared with ONNX Runtime."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as states

from edgetune.errors import EdgetuneError
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from tests.axes.cases import AxisCase, case_of

Status = Literal["right", "refused", "unnamed", "wrong", "traceback"]
STATUSES: dict[Status, str] = {
    "right": "the results of ONNX Runtime",
    "refused": "one sentence, which names the node",
    "unnamed": "a sentence that names no node",
    "wrong": "other results",
    "traceback": "an exception that is none of edgetune's",
}
Arrays = Mapping[str, np.ndarray]
_REFUSED = (states.InvalidGraph, states.NotImplemented, states.InvalidArgument)
_TOLERANCE = 1e-4
_ROUNDING = 1e-6  # of sums whose terms cancel


def judge(name: str, _folder: Path) -> tuple[Status, str]:
    """Status of a case, and why it is not right."""
    case = case_of(name)
    model = model_of(case)
    feed, expected = answers_of(model)
    try:
        program = program_of(model)
        actual = evaluate_program(program, [feed])[0]
    except EdgetuneError as error:
        named = any(node.name and repr(node.name) in error.message for node in case.model.graph.node)
        return "refused" if named else "unnamed", f"{error.message} [{case.words}]"
    except Exception as error:  # noqa: BLE001 - what a person would see as a traceback is counted
        return "traceback", f"{type(error).__name__}: {' '.join(str(error).split())[-300:]} [{case.words}]"
    wrong = difference(expected, actual)
    return ("wrong", f"{wrong} [{case.words}]") if wrong else ("right", "")


def model_of(case: AxisCase) -> OnnxModel:
    """The model of a case, read as edgetune reads files."""
    return model_from_proto(case.model, "0" * 64, case.name, None, case.name)


def program_of(model: OnnxModel) -> Program:
    """Import, passes and lowering."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_program(import_onnx(model))


def answers_of(model: OnnxModel) -> tuple[Arrays, Arrays]:
    """Inputs, and results of ONNX Runtime for them, or of ONNX's own evaluator for what that does not have.

    Its optimisations are off: they make a negative axis of a Resize behind a Transpose an index out of bounds.
    """
    shape = tuple(dim.dim_value for dim in model.proto.graph.input[0].type.tensor_type.shape.dim)
    feed = {"x": np.random.default_rng(5).standard_normal(shape).astype("float32")}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    stored = model.proto.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(stored, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return feed, dict(zip(names, session.run(names, feed), strict=True))
    except _REFUSED:
        return feed, evaluate_model(model, [feed], "onnx.reference")[0]


def difference(expected: Arrays, actual: Arrays) -> str:
    """How results differ; empty where they do not."""
    for name, value in expected.items():
        got = actual[name]
        if (got.shape, got.dtype) != (value.shape, value.dtype):
            return f"{name} is {got.dtype}{list(got.shape)}, not {value.dtype}{list(value.shape)}"
        largest = float(np.nanmax(np.abs(value.astype("float64")), initial=1e-6, where=np.isfinite(value)))
        if not np.allclose(
            got, value, rtol=_TOLERANCE, atol=max(_TOLERANCE * min(largest, 1.0), _ROUNDING), equal_nan=True
        ):
            worst = np.nanmax(np.abs(got.astype("float64") - value))
            return f"{name} differs by {worst:.3g} of {largest:.3g}"
    return ""
