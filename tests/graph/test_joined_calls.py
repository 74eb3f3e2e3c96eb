"""Joined calls: what a loop's body computes of what it has just computed is a kernel with both results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgetune.backends.c_linux import CLinux
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.joined_calls import with_joined_calls
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from edgetune.schedule.default_schedule import default_trace
from edgetune.target.target import load_board_kind, with_cpu

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'


def program_of(text: str, **weights: np.ndarray) -> Program:
    proto = onnx.parser.parse_model(f"{HEAD} {text}")
    proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return to_program(import_onnx(model_from_proto(proto, "0" * 64, "m", None, "m.onnx")))


def lstm(units: int) -> Program:
    generator = np.random.default_rng(0)
    w, r = (generator.standard_normal((1, 4 * units, n), np.float32) / 4 for n in (3, units))
    text = f"m (float[5, 1, 3] x) => (float[1, 1, {units}] h) {{ y, h = LSTM <hidden_size = {units}> (x, w, r) }}"
    return program_of(text, w=w, r=r)


def test_gates_activations_and_the_cell_are_one_kernel() -> None:
    program = lstm(8)
    (loop,) = program.loops
    inside = [program.kernels[call.kernel] for call in program.calls[loop.start : loop.stop]]
    assert [kernel.macs > 0 for kernel in inside] == [True, False]
    assert [param.role for param in inside[1].params] == ["input", "input", "output", "output"]


def chain(second: str, *, also: str = "") -> Program:
    """y = x + 1, read by the caller as well; z is `second` of it."""
    outputs = f"float[4, 6] y, float[4, 6] z{', float[4, 6] v' if also else ''}"
    return program_of(
        f"m (float[4, 6] x) => ({outputs}) <float one = {{1}}> {{ y = Add (x, one) {also} z = {second} }}",
        w=np.eye(6, dtype=np.float32),
    )


@pytest.mark.parametrize("second", ["Tanh (y)", "Mul (x, y)", "Mul (y, y)", "Add (y, one)"])
def test_both_results_are_right(second: str) -> None:
    apart = chain(second)
    joined = with_joined_calls(apart)
    assert (len(apart.calls), len(joined.calls)) == (2, 1)
    feed = {"x": np.random.default_rng(1).standard_normal((4, 6), np.float32)}
    one, other = (evaluate_program(program, [feed])[0] for program in (apart, joined))
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(chain("MatMul (y, w)"), id="a sum"),
        pytest.param(chain("Softmax (y)"), id="rows"),
        pytest.param(chain("MatMul (v, w)", also="v = MatMul (y, w)"), id="nothing elementwise"),
    ],
)
def test_others_stay_apart(program: Program) -> None:
    assert len(with_joined_calls(program).calls) == len(program.calls)


def test_a_call_between_them_that_reads_the_first_result_keeps_them_apart() -> None:
    program = chain("Mul (y, v)", also="v = MatMul (y, w)")
    assert len(with_joined_calls(program).calls) == len(program.calls)


def test_the_default_schedule_computes_both_in_one_pass() -> None:
    board = load_board_kind("generic-x86_64")
    program = lstm(32)
    kernel = next(kernel for kernel in program.kernels if len(kernel.params) == 4 and not kernel.macs)
    (trace, _) = default_trace(kernel.function, with_cpu(board))
    alone = replace(program, kernels=(kernel,), calls=(), loops=())
    printed = CLinux().print_kernels(alone, [trace], board, "m", lambda _: None, 1)
    assert printed.kernels[0].source.definition.count("for (") == 1
