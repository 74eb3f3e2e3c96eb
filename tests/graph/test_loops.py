"""Loops: the order of a run, where arguments are in each iteration, how long tensors live, and what is not stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from onnx import helper, numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.frontend.onnx.sample_inputs import sample_inputs
from edgetune.graph.evaluate import ReferenceFunction, evaluate_program
from edgetune.graph.loops import (
    Stage,
    call_at,
    loops_around,
    run_order,
    stage_of_each_call,
    stages,
    times_called,
    without_loops,
    written_by,
)
from edgetune.graph.memory.in_place import in_place_candidates, in_place_outputs
from edgetune.graph.memory.live_ranges import kept_in_loops, live_ranges
from edgetune.graph.memory.plan import plan
from edgetune.graph.partition import to_program
from edgetune.graph.parts import BufferPart, Movement, Part
from edgetune.graph.program import Buffer, Call, Kernel, Loop, Param, Program
from tests.arena_run import run_in_arena
from tests.examples import costly
from tests.loop_samples import Recurrent, numbers, recurrent
from tests.random_loops import loop_models

_FLOAT, _SPARE = 4, 16 << 10


def program_of(model: OnnxModel) -> Program:
    return to_program(import_onnx(model))


@pytest.mark.long
@costly(25)
@given(loop_models())
def test_loops_compute_what_onnx_runtime_does_wherever_tensors_lie(model: OnnxModel) -> None:
    program = program_of(model)
    feed = sample_inputs(model, program.inputs, 1, seed=3)[0]
    (wanted,) = evaluate_model(model, [feed], "onnxruntime")
    (found,) = evaluate_program(program, [feed])
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    functions = ReferenceFunction.together([kernel.function for kernel in program.kernels])
    over = {number: in_place_candidates(kernel) for number, kernel in enumerate(program.kernels)}
    forms = (program, without_loops(program))
    for each in (form.with_io(io) for form in forms for io in ("caller", "arena")):
        for in_place in ({}, in_place_outputs(each, over)):
            outputs = run_in_arena(each, plan(each, {}, in_place), feed, functions)
            for name, value in found.items():
                np.testing.assert_array_equal(outputs[name], value, err_msg=name)


def nested() -> Program:
    """A call, a loop of two calls around a loop of one, which begins with it, a call, and a loop of one.

    Each call reads a tensor of one element and writes the next of ten: where its call is in a loop, it moves with it.
    """
    function: Any = None
    params = (Param("x", (1,), "int32", "input"), Param("y", (1,), "int32", "output"))
    kernel = Kernel("k", "0", function, params, ("k",), 0, 1)
    kinds = ["input", *["intermediate"] * 4, "output"]
    buffers = tuple(Buffer(n, f"t{n}", (10,), "int32", kind) for n, kind in enumerate(kinds))  # type: ignore[arg-type]
    calls = (
        Call(0, (0, 1), "a"),
        Call(0, (1, 2), "b", {0: Part(0, (1,), (Movement(0, 1),)), 1: Part(1, (1,), (Movement(0, 3), Movement(1, 1)))}),
        Call(0, (2, 3), "c", {1: Part(0, (1,), (Movement(0, 1, rows=2),))}),
        Call(0, (3, 4), "d"),
        Call(0, (4, 5), "e", {1: Part(8, (1,), (Movement(2, -2),))}),
    )
    loops = (Loop(1, 3, 2, "outer"), Loop(1, 2, 3, "inner"), Loop(4, 5, 4, "last"))
    return Program("p", (), (), buffers, (kernel,), calls, {}, "0" * 64, loops=loops)


def test_a_run_repeats_the_calls_of_loops() -> None:
    program = nested()
    outer = [[(1, {0: n, 1: i}) for i in range(3)] + [(2, {0: n})] for n in range(2)]
    assert list(run_order(program)) == [(0, {}), *outer[0], *outer[1], (3, {}), *((4, {2: n}) for n in range(4))]
    assert [loops_around(program, call) for call in range(5)] == [(), (0, 1), (0,), (), (2,)]
    assert [times_called(program, call) for call in range(5)] == [1, 6, 2, 1, 4]
    unrolled = without_loops(program)
    assert unrolled.loops == ()
    assert [call.label for call in unrolled.calls][:5] == ["a", "b [0, 0]", "b [0, 1]", "b [0, 2]", "c [0]"]


def test_layers_are_calls_and_outermost_loops() -> None:
    program = nested()
    assert stages(program) == (Stage(0, 1), Stage(1, 3, 0), Stage(3, 4), Stage(4, 5, 2))
    assert stage_of_each_call(program) == (0, 1, 1, 2, 3)
    written = [[(one.buffer, list(one.elements)) for one in written_by(program, stage)] for stage in stages(program)]
    assert written == [[(1, [0])], [(3, [0, 1])], [(4, [0])], [(5, [2, 4, 6, 8])]], "tensor 2 is read in the loop alone"
    (last,) = written_by(program, stages(program)[-1])
    assert (last.first, last.nbytes) == (2, 7 * _FLOAT)


def test_arguments_move_with_their_loops() -> None:
    program = nested()
    moved = call_at(program.calls[1], {0: 1, 1: 2})
    assert [moved.parts[n] for n in (0, 1)] == [Part(1, (1,)), Part(1 + 3 + 2, (1,))]
    assert [call_at(program.calls[2], {0: n}).parts[1].offset for n in range(3)] == [0, 1, 0]
    assert [call_at(program.calls[4], {2: n}).parts[1].offset for n in range(4)] == [8, 6, 4, 2]


def test_a_state_is_elsewhere_in_a_first_iteration_and_moves_there_too() -> None:
    first = BufferPart(7, Part(20, (1,), (Movement(1, 3),)))
    state = Part(0, (1,), (Movement(0, 5, rows=2, ahead=1, first=first), Movement(1, 1)))
    call = Call(0, (2, 3), "a", {0: state})
    places = {at: call_at(call, {0: at[0], 1: at[1]}) for at in [(0, 0), (0, 2), (1, 0), (1, 2), (2, 0)]}
    found = {at: (one.arguments[0], one.parts[0].offset) for at, one in places.items()}
    assert found == {(0, 0): (7, 20), (0, 2): (7, 26), (1, 0): (2, 0), (1, 2): (2, 2), (2, 0): (2, 5)}
    assert call.buffers == (2, 7, 3)


def test_what_an_iteration_leaves_for_a_later_one_lives_as_long_as_the_loop() -> None:
    program = nested()
    assert kept_in_loops(program) == [frozenset({1, 2, 3}), frozenset({1, 2}), frozenset({4, 5})]
    assert live_ranges(program) == {1: (0, 2), 2: (1, 2), 3: (1, 3), 4: (3, 4)}


def kept(program: Program) -> list[tuple[int, ...]]:
    """Shapes of the tensors between layers and steps."""
    return [buffer.shape for buffer in program.buffers if buffer.kind == "intermediate"]


def part_of_steps(first: int, stop: int) -> OnnxModel:
    """The product of some steps of an LSTM of 12 steps, of which no other is read."""
    constants = {"first": np.array([first]), "stop": np.array([stop]), "axis": np.array([0]), "m": numbers(16, 8)}
    behind = [
        *(helper.make_node("Constant", [], [n], value=numpy_helper.from_array(v)) for n, v in constants.items()),
        helper.make_node("Slice", ["all", "first", "stop", "axis"], ["part"]),
        helper.make_node("MatMul", ["part", "m"], ["y"]),
    ]
    return recurrent(Recurrent(steps=12, units=16, outputs=("all",)), behind=behind, y=[stop - first, 1, 1, 8])


def test_of_all_steps_only_the_last_is_stored_where_only_that_is_read() -> None:
    program = program_of(part_of_steps(11, 12))
    assert [shape for shape in kept(program) if shape[0] == 12] == [(12, 64)], "the product of the whole input"
    assert (2, 1, 16) in kept(program), "two rows of the state take turns"


@pytest.mark.parametrize(("first", "stop"), [(0, 1), (10, 12), (11, 12)])
def test_steps_that_are_read_are_those_of_onnx_runtime(first: int, stop: int) -> None:
    model = part_of_steps(first, stop)
    program = program_of(model)
    feed = sample_inputs(model, program.inputs, 1, seed=3)[0]
    (wanted,) = evaluate_model(model, [feed], "onnxruntime")
    (found,) = evaluate_program(program, [feed])
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-4, atol=1e-5)


def test_both_directions_write_into_the_tensor_of_both() -> None:
    program = program_of(recurrent(Recurrent(direction="bidirectional", units=16, outputs=("y", "h", "c"))))
    (whole,) = (
        buffer for buffer, spec in zip(program.output_buffers(), program.outputs, strict=True) if spec.name == "y"
    )
    writers = [call for call in program.calls if call.arguments[-1] == whole.id]
    assert [movement.elements for call in writers for movement in call.parts[len(call.arguments) - 1].movements] == [
        32,
        -32,
    ]
    named = [kernel.name for kernel in program.kernels]
    assert not [name for name in named if "concatenate" in name], named
    copies = [call.arguments[-1] for call in program.calls if program.kernels[call.kernel].sources == ("copy",)]
    assert whole.id not in copies
    assert len(copies) <= 4, "the last states, which are outputs of the model"


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_the_workspace_has_the_products_of_the_input_and_little_more(operator: str, gates: int, direction: str) -> None:
    layer = Recurrent(operator, steps=100, features=8, units=64, direction=direction)
    memory = plan(program_of(recurrent(layer)), {})
    assert memory.arena_bytes <= _FLOAT * 100 * 64 * gates * layer.directions + _SPARE


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_more_steps_are_no_more_code(direction: str) -> None:
    few, many = (
        program_of(recurrent(Recurrent(steps=steps, direction=direction, outputs=("", "h")))) for steps in (5, 60)
    )
    assert len(few.kernels) == len(many.kernels)
    assert [call.label for call in few.calls] == [call.label for call in many.calls]
    inside = [
        [each.kernels[each.calls[n].kernel].workload for n in range(len(each.calls)) if loops_around(each, n)]
        for each in (few, many)
    ]
    assert inside[0] == inside[1]
    assert [loop.steps for loop in many.loops] == [60] * len(few.loops)
    assert [kernel.weight for kernel in many.kernels if kernel.workload in inside[1]] == [
        12 * kernel.weight for kernel in few.kernels if kernel.workload in inside[0]
    ]
