"""Packages whose states are ring buffers or caches: right on this machine and on a board, and under sanitizers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgetune
from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.frontend.onnx.streaming import InputStream, step_model
from edgetune.graph.evaluate import evaluate_sequence
from edgetune.package.manifest import MANIFEST
from tests.frontend.onnx.streamed import read
from tests.frontend.tflite.test_variables import loaded
from tests.frontend.tflite.variable_operators import assign, begin, handle
from tests.frontend.tflite.variable_operators import read as read_variable
from tests.frontend.tflite.writer import Writer
from tests.graph import test_rings as models
from tests.package.test_build import last, make

pytestmark = pytest.mark.long


def built(proto: onnx.ModelProto, states: Mapping[str, str], board: str, folder: Path) -> Path:
    """The package in `folder`, which its build has tested."""
    onnx.save(proto, folder / "step.onnx")
    flags = CommandLineFlags(model=folder / "step.onnx", board=board, states=dict(states), out=folder / "out")
    api.build(resolve_settings(flags, {}, folder), events=lambda _: None)
    return folder / "out"


def step(
    build: Callable[[int], onnx.ModelProto], window: int, axis: int, hop: int
) -> tuple[onnx.ModelProto, dict[str, str]]:
    found = step_model(read(build(window)), {"x": InputStream(axis, hop)})
    return found.model.proto, {state.name_in: state.name_out for state in found.states}


@pytest.mark.parametrize(
    ("build", "window", "axis", "hop"),
    [(models.dilated, 16, 2, 2), (models.mean, 27, 2, 1), (models.attention, 32, 1, 4)],
)
def test_a_ring_is_right_on_a_board_and_layer_by_layer(
    build: Callable[[int], onnx.ModelProto], window: int, axis: int, hop: int, tmp_path: Path
) -> None:
    package = built(*step(build, window, axis, hop), "mps2-an500", tmp_path)
    report = api.verify(package, None, tmp_path / "step.onnx", per_layer=lambda _: None)
    assert (report.golden_cases, report.fresh_cases) == (5, 4)
    assert report.layers
    assert not any(layer.departs for layer in report.layers)


def test_sanitizers_find_nothing_while_a_ring_wraps(tmp_path: Path) -> None:
    package = built(*step(models.strided, 16, 2, 2), "host", tmp_path)
    flags = "CFLAGS=-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    assert last(make(package, flags, "selftest")) == "PASS"
    states = json.loads((package / MANIFEST).read_text())["states"]
    assert [state.get("ring") for state in states] == [
        {"axis": 2, "rows": 4, "count": 2, "position": "position of 2 steps"},
        {"axis": 2, "rows": 5, "count": 1, "position": "position of 5 steps"},
        None,
        None,
    ]


def test_runs_go_on_until_a_reset_and_from_a_process_to_the_next(tmp_path: Path) -> None:
    proto, states = step(models.dilated, 16, 2, 1)
    package = built(proto, states, "host", tmp_path)
    program, _ = models.programs(step_model(read(models.dilated(16)), {"x": InputStream(2)}))
    feeds = models.feeds(program, 6)
    (output,) = program.outputs
    wanted = evaluate_sequence(program, feeds)
    with edgetune.Package.open(package) as opened:
        assert [(state.name_in, state.name_out) for state in opened.states] == list(states.items())
        for again in range(2):
            opened.reset()
            for number, (feed, right) in enumerate(zip(feeds, wanted, strict=True)):
                if again:
                    opened.close()  # the next run needs another process
                found = opened.run(**feed)[output.name]
                np.testing.assert_allclose(found, right[output.name], rtol=1e-4, atol=1e-5)
                if number:
                    last = np.concatenate([feeds[number - 1]["x"], feed["x"]], 2)
                    np.testing.assert_array_equal(opened.kept["x_state"], last)


@pytest.mark.parametrize("cache", [models.tensor_scatter, models.scatter_nd])
def test_a_step_writes_its_own_row_of_a_cache(
    cache: Callable[[], tuple[onnx.ModelProto, dict[str, str]]], tmp_path: Path
) -> None:
    package = built(*cache(), "host", tmp_path)
    source = (package / "src" / "step.c").read_text()
    rows = re.findall(r"STATE\(KEPT_\d+ \+ step__row\(ARENA\(AT_\d+\), 12u\) \* \d+u\)", source)
    assert len(rows) == len(cache()[1])
    with edgetune.Package.open(package) as opened:
        feed = {x.name: np.zeros(x.shape, x.dtype) for x in opened.inputs}
        for number in (-1 << 40, 1 << 40):  # nothing outside is written
            opened.run(**{**feed, "pos": np.full_like(feed["pos"], number)})


def variable() -> Writer:
    """The mean of the last 6 frames, of which 5 are a variable whose first rows differ."""
    writer = Writer()
    x = writer.input((1, 1, 1, 4), "FLOAT32", name="x")
    begin(writer, "past", np.arange(20).reshape(1, 5, 1, 4), "FLOAT32")
    past = handle(writer, "past")
    joined, kept = (writer.tensor((1, rows, 1, 4), "FLOAT32") for rows in (6, 5))
    before = read_variable(writer, past, (1, 5, 1, 4), "FLOAT32")
    writer.operator("CONCATENATION", [before, x], [joined], "ConcatenationOptions", Axis=1)
    ends = [writer.constant(one, "INT32") for one in ([0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1])]
    writer.operator("STRIDED_SLICE", [joined, *ends], [kept], "StridedSliceOptions", BeginMask=0b1101, EndMask=0b1111)
    writer.outputs = [writer.tensor((1, 1, 4), "FLOAT32")]
    writer.operator("MEAN", [joined, writer.constant([1], "INT32")], writer.outputs, "ReducerOptions")
    assign(writer, past, kept)
    return writer


def test_a_variable_is_a_ring_that_begins_with_its_rows(tmp_path: Path) -> None:
    model, out = loaded(tmp_path, variable()), tmp_path / "package"
    edgetune.load(model.content.path).build(board="host", out=out)
    (state,) = model.states()
    feeds = model.sample_inputs([one for one in model.inputs if one.name == "x"], 8, 1)
    pairs = {state.name_in: state.name_out}
    right, _ = model.sequence_outputs(feeds, {state.name_in: state.first}, pairs, model.program, lambda _: None)
    with edgetune.Package.open(out) as package:
        assert [one.ring is not None for one in package.states] == [True]
        for _ in range(2):
            package.reset()
            np.testing.assert_array_equal(package.kept[state.name_in], state.first)
            for feed, wanted in zip(feeds, right, strict=True):
                found = package.run(**feed) | {state.name_out: package.kept[state.name_in]}
                for name, array in wanted.items():
                    np.testing.assert_allclose(found[name], array, rtol=1e-5)
