"""Runs one node test or chain from model to compared outputs and says in one word how it went."""

from __future__ import annotations

import subprocess
import warnings
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from onnx import helper
from onnx.backend.test.runner import Runner

from edgetune.errors import EdgetuneError, KernelFailed
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.frontend.onnx.sub_byte_types import FLOATS, INTEGERS
from edgetune.graph.loops import without_loops
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from edgetune.graph.ways import USUAL, Ways
from edgetune.target.target import Target, load_target
from tests.compile_cache import CompileError
from tests.conformance.case import Case, UnfitError, load
from tests.conformance.chains import BY_KEY, load_chain
from tests.conformance.native import RunError, compile_unit, emit_unit, execute

Status = Literal[
    "passed", "constant", "out of scope", "not imported", "not printed", "not compiled", "crashed", "wrong"
]
STATUSES: dict[Status, str] = {
    "passed": "through the emitted C, within the tolerances of the test",
    "constant": "folds to a constant: no input reaches an output through a kernel",
    "out of scope": "inputs or outputs are sequences, optionals or strings",
    "not imported": "an operator, a form of it or an element type is not supported",
    "not printed": "no C for a kernel",
    "not compiled": "the C compiler refuses a kernel",
    "crashed": "the generator or the compiled program died",
    "wrong": "outputs differ from those of the test",
}


def judge(name: str, folder: Path) -> tuple[Status, str]:
    """Status of the node test or chain `name`, and a one-line reason where it did not pass. Writes into `folder`."""
    try:
        case = load_chain(name) if name in BY_KEY else load(name)
        program = program_of(case)
        unit = emit_unit(program, _target())
        outputs = execute(compile_unit(unit, _target(), folder), program, unit, case.inputs)
    except UnfitError as error:
        return "out of scope", str(error)
    except KernelFailed as error:
        return "not printed", in_one_line(error)
    except EdgetuneError as error:
        return "not imported", in_one_line(error)
    except CompileError as error:
        return "not compiled", next((line for line in error.said.splitlines() if "error:" in line), error.said)[:200]
    except (RunError, subprocess.TimeoutExpired) as error:
        return "crashed", in_one_line(error)
    if wrong := difference(case, program, outputs):
        return "wrong", wrong
    return ("passed", "") if reaches(program) else ("constant", "")


def program_of(case: Case, *, ways: Ways = USUAL) -> Program:
    """The imported test; `ways` are the graph passes that not every package has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_from_proto(case.model, "0" * 64, case.name, case.shapes, case.name)
        return to_program(import_onnx(model), ways=ways)


@cache
def _target() -> Target:
    return load_target("host")


def in_one_line(error: Exception) -> str:
    """What an error says, shortened."""
    return " ".join(str(error).split())[:240] or type(error).__name__


def _from_stored(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The output of a package as `dtype`, if that is a narrow type; others stay unchanged."""
    element = helper.np_dtype_to_tensor_dtype(dtype)
    if element in INTEGERS:
        return array.astype(dtype)
    return array.view(dtype) if element in FLOATS else array


def _selected(array: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The rows of a selection that are expected, where all behind them are -1; otherwise all rows."""
    count = len(expected)
    return array[:count] if len(array) >= count and (array[count:] == -1).all() else array


def difference(case: Case, program: Program, outputs: list[np.ndarray]) -> str:
    """Empty when ONNX's own test runner accepts `outputs`."""
    try:
        given = [_from_stored(o, e.dtype) for o, e in zip(outputs, case.expected, strict=True)]
        kinds = zip(program.outputs, given, case.expected, strict=True)
        given = [_selected(made, wanted) if spec.selection else made for spec, made, wanted in kinds]
        Runner.assert_similar_outputs(case.expected, given, case.rtol, case.atol)
    except AssertionError as error:
        return in_one_line(error)
    return ""


def reaches(program: Program) -> bool:
    """Whether some input reaches some output through at least one call."""
    fed = {b.id for b in program.input_buffers()}
    for call in without_loops(program).calls:
        kernel = program.kernels[call.kernel]
        read = [a for a, p in zip(call.arguments, kernel.params, strict=True) if p.role != "output"]
        if fed.intersection(read):
            fed.update(a for a, p in zip(call.arguments, kernel.params, strict=True) if p.role == "output")
    return any(b.id in fed for b in program.output_buffers())
