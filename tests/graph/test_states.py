"""States of a program: a sequence is the original model step by step, with as few copies as possible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetune.backends.c_kernels import written_over_at_best
from edgetune.graph.evaluate import evaluate_program, evaluate_sequence
from edgetune.graph.loops import without_loops
from edgetune.graph.program import LinearQuantisation, Program
from edgetune.graph.states import with_states, with_states_overwritten
from edgetune.pipeline.model_formats import read_model
from tests import state_sample as sample
from tests.package_sample import generic_x86

RUNS = 4


def copies(program: Program) -> list[str]:
    return [call.label for call in program.calls if call.label.endswith("(copy)")]


def overwritten(program: Program) -> Program:
    """The program as its package has it."""
    return with_states_overwritten(program, written_over_at_best(program, generic_x86()))[0]


@pytest.mark.parametrize(
    ("name", "kept", "left"),
    [
        ("gru", ["hn (copy)"], []),  # the last kernel reads each element before it writes it
        ("cell", ["hn (copy)"], ["hn (copy)"]),  # one kernel reads all of the old state
        ("average", ["hn (copy)"], []),
        ("swap", ["a_next (copy)", "b_next (copy)"], ["a_next (copy)", "b_next (copy)"]),  # one by the model itself
        ("delay", [], []),  # what reads the old state comes before what writes the new one
    ],
)
def test_a_sequence_is_the_model_step_by_step(name: str, kept: list[str], left: list[str], tmp_path: Path) -> None:
    model, pairs = read_model(getattr(sample, name)(tmp_path / "m.onnx")), sample.PAIRS[name]
    program = with_states(model.program(), pairs)
    assert [spec.name for spec in program.inputs] == ["x"]
    assert [(state.name_in, state.name_out) for state in program.states] == list(pairs.items())
    assert not {spec.name for spec in program.outputs} & set(pairs.values())
    feeds = model.sample_inputs(program.inputs, RUNS, 0)
    wanted = sample.step_by_step(model, feeds, pairs)
    for one, calls in ((program, kept), (overwritten(program), left)):
        assert [label for label in copies(one) if label.split()[0] in pairs.values()] == calls
        assert [buffer.id for buffer in one.buffers] == list(range(len(one.buffers)))
        for got, right in zip(evaluate_sequence(one, feeds), wanted, strict=True):
            np.testing.assert_allclose(got["y"], right["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loops", [True, False])
def test_a_state_that_a_loop_reads_first_and_leaves_last(loops: bool, tmp_path: Path) -> None:
    model = read_model(sample.gru(tmp_path / "m.onnx", 5))
    whole = model.program() if loops else without_loops(model.program())
    program = overwritten(with_states(whole, {"h0": "hn"}))
    assert len(program.loops) == loops
    feeds = model.sample_inputs(program.inputs, RUNS, 0)
    wanted = sample.step_by_step(model, feeds, {"h0": "hn"})
    for got, right in zip(evaluate_sequence(program, feeds), wanted, strict=True):
        np.testing.assert_allclose(got["y"], right["y"], rtol=1e-4, atol=1e-5)


def test_a_run_begins_with_the_state_it_is_given(tmp_path: Path) -> None:
    model = read_model(sample.average(tmp_path / "m.onnx"))
    program = with_states(model.program(), {"h0": "hn"})
    feed, state = model.sample_inputs(program.inputs, 1, 0)[0], np.full((1, 64), 0.5, np.float32)
    wanted = model.reference_outputs([{**feed, "h0": state}], model.program, lambda _: None)[0][0]["y"]
    first, given = evaluate_program(program, [feed, {**feed, "h0": state}])
    np.testing.assert_allclose(given["y"], wanted, rtol=1e-5)
    assert abs(first["y"] - given["y"]) > 1e-3
    assert np.all(state == 0.5), "what is given is not changed"


def test_a_quantised_state_is_first_what_stands_for_zero(tmp_path: Path) -> None:
    program = read_model(sample.average(tmp_path / "m.onnx")).program()
    known = program.with_quantisation({"h0": LinearQuantisation(0.5, -3)})
    (state,) = with_states(known, {"h0": "hn"}).states
    assert np.all(state.first == -3)
    assert state.first.shape == (1, 64)


def test_without_states_nothing_changes(tmp_path: Path) -> None:
    program = read_model(sample.average(tmp_path / "m.onnx")).program()
    assert with_states(program, {}) is program
