"""Running sums and products: in blocks where the axis is long, and with lanes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.codegen import emit_kernel
from edgetune.frontend.onnx.converters.scans import block_of
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.graph.partition import to_program
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from tests.codegen_run import compile_strictly, wide_target
from tests.examples import costly
from tests.interpreter import run_program


def scan(operator: str, shape: list[int], axis: int, **attributes: int) -> OnnxModel:
    node = helper.make_node(operator, ["x", "axis"], ["y"], **attributes)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(np.array(axis), "axis")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=8)
    return model_from_proto(proto, "0" * 64, "model", None, "model.onnx")


def by_numpy(operator: str, x: np.ndarray, axis: int, *, exclusive: bool, reverse: bool) -> np.ndarray:
    accumulate = np.cumsum if operator == "CumSum" else np.cumprod
    y = np.flip(x, axis) if reverse else x
    if exclusive:
        first = np.full_like(y.take([0], axis), 0 if operator == "CumSum" else 1)
        y = np.concatenate([first, y.take(range(y.shape[axis] - 1), axis)], axis)
    y = accumulate(y.astype(np.float64), axis)
    return np.flip(y, axis) if reverse else y


@pytest.mark.long
@costly(12)
@given(
    st.sampled_from(["CumSum", "CumProd"]),
    st.sampled_from([([7], 0), ([300], 0), ([2, 289, 3], 1), ([3, 512], -1), ([2, 257], 1)]),
    st.booleans(),
    st.booleans(),
)
def test_each_element_is_made_of_all_before_it(
    operator: str, place: tuple[list[int], int], exclusive: bool, reverse: bool
) -> None:
    shape, axis = place
    model = scan(operator, shape, axis, exclusive=int(exclusive), reverse=int(reverse))
    x = np.random.default_rng(0).uniform(0.9, 1.1, shape).astype(np.float32)
    found = run_program(to_program(import_onnx(model)), {"x": x})["y"]
    expected = by_numpy(operator, x, axis % len(shape), exclusive=exclusive, reverse=reverse)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_product_that_overflows_only_in_a_block_stays_zero() -> None:
    """The product of a block alone was infinite, and NaN times the zero before it."""
    x = np.ones(512, np.float32)
    x[5], x[300:] = 0, 1e5
    program = to_program(import_onnx(scan("CumProd", [512], 0)))
    assert not run_program(program, {"x": x})["y"][5:].any()


@pytest.mark.parametrize("reverse", [0, 1])
def test_a_sum_that_overflows_only_in_a_block_stays_finite(reverse: int) -> None:
    """Sums of blocks were infinite of both signs, and those before later blocks NaN."""
    x = np.tile(np.array([3e38, 3e38, -3e38, -3e38], np.float32), 128)
    x[:4] = -3e38, 0, 0, 0  # all sums are 3e38, 0 or -3e38, but those of blocks reach 6e38
    x = np.flip(x).copy() if reverse else x
    found = run_program(to_program(import_onnx(scan("CumSum", [512], 0, reverse=reverse))), {"x": x})["y"]
    expected = by_numpy("CumSum", x, 0, exclusive=False, reverse=bool(reverse))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("extent", "lanes", "block"),
    [(77, 8, 77), (255, 1, 255), (512, 8, 8), (16000, 8, 32), (1000, 1, 10), (257, 8, 257)],
)
def test_blocks_are_as_large_as_takes_the_fewest_steps(extent: int, lanes: int, block: int) -> None:
    """16,000 elements took 168 ms as one block, and 22 us in blocks of 32. 257 is a prime."""
    assert block_of(extent, lanes) == block


def test_a_short_scan_has_lanes(tmp_path: Path) -> None:
    """A branch for each lane of each step took 40 times as long."""
    program = to_program(import_onnx(scan("CumSum", [40, 77], 1)))
    target = wide_target(256)
    function = program.kernels[0].function
    text, _ = default_schedule(function, target, 1 << 20, FORMS)
    source = emit_kernel(apply_schedule(function, text).module, target, "k")
    assert "f32x8" in source.definition
    assert "[0] = " not in source.definition
    compile_strictly(source, target, tmp_path, "gcc")
