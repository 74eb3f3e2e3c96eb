"""Files that are whole, and odd: operands that do not fit, shapes that contradict, tensors in several roles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgetune.errors import DynamicShape, ModelError, UnsupportedOperator
from edgetune.frontend.tflite import litert
from edgetune.frontend.tflite.format import FORMAT, LoadedTflite
from edgetune.graph.evaluate import evaluate_program
from tests.frontend.tflite.writer import Writer


def read(folder: Path, writer: Writer) -> LoadedTflite:
    path = folder / "odd.tflite"
    path.write_bytes(writer.content())
    model = FORMAT.read(path).with_shapes({})
    assert isinstance(model, LoadedTflite)
    return model


def made(operator: str, of: tuple[int, ...], result: tuple[int, ...], *constants: object, kind: str = "") -> Writer:
    """One operator of an input and of int32 constants."""
    writer = Writer()
    x = writer.input(of, "FLOAT32", name="x")
    given = [writer.constant(np.asarray(value, np.int32), "INT32") for value in constants]
    writer.outputs = [writer.tensor(result, "FLOAT32", name="y")]
    writer.operator(operator, [x, *given], writer.outputs, kind)
    return writer


MISFITS: dict[str, Writer] = {
    "two axes of an extreme": made("ARG_MAX", (1, 4), (1,), [0, 1], kind="ArgMaxOptions"),
    "widths without a second axis": made("PAD", (1, 4), (1, 6), [1, 1]),
    "an axis that is not there": made("SPLIT_V", (1, 4), (1, 4), [-1], 9, kind="SplitVOptions"),
    "a permutation of two axes": made("TRANSPOSE", (1, 4), (4, 1), [[0, 1], [1, 0]]),
    "blocks of no elements": made("SPACE_TO_BATCH_ND", (1, 4, 4, 1), (1, 4, 4, 1), [0, 0], [[0, 0], [0, 0]]),
    "a mirror wider than the image": made("MIRROR_PAD", (1, 4), (1, 4), [[0, 0], [400_000_000, 0]]),
    "two extents of four": made("CUMSUM", (1, 4), (1, 4), [0, 1], kind="CumsumOptions"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_operands_that_do_not_fit_are_refused_by_operator(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        UnsupportedOperator, match=rf"{MISFITS[name].operators[0].name} \(operator 0, which makes 'y'\)"
    ):
        read(tmp_path, MISFITS[name])


@pytest.mark.parametrize(
    "writer",
    [
        made("RELU", (1, 4), (1, 9)),
        made("TILE", (1 << 10, 1 << 10), (4, 4), [1 << 10, 1 << 10]),
        made("BROADCAST_TO", (1,), (4,), [1 << 30]),
        made("RESIZE_BILINEAR", (1, 4, 4, 1), (1, 4, 4, 1), [1 << 20, 1 << 20], kind="ResizeBilinearOptions"),
    ],
    ids=["another extent", "copies", "an expansion", "an image"],
)
def test_shapes_that_contradict_operators_are_refused_before_anything_is_computed(
    tmp_path: Path, writer: Writer
) -> None:
    with pytest.raises(ModelError, match=r"gives tensor 'y' the shape .* and its operator makes"):
        read(tmp_path, writer)


def with_roles(change: Callable[[Writer, int, int], None]) -> Writer:
    """RELU of `x`, whose tensors `change` gives more roles."""
    writer = made("RELU", (2, 3), (2, 3))
    change(writer, writer.inputs[0], writer.outputs[0])
    return writer


def _as_output(writer: Writer, x: int, _: int) -> None:
    writer.outputs.append(x)


def _twice(writer: Writer, _: int, y: int) -> None:
    writer.outputs.append(y)


def _constant(writer: Writer, *_: int) -> None:
    writer.outputs.append(writer.constant(np.arange(3, dtype=np.float32), "FLOAT32"))


def _unused(writer: Writer, *_: int) -> None:
    writer.input((2,), "FLOAT32", name="unused")


@pytest.mark.parametrize("change", [_as_output, _twice, _constant, _unused])
def test_tensors_in_several_roles(tmp_path: Path, change: Callable[[Writer, int, int], None]) -> None:
    model = read(tmp_path, with_roles(change))
    feed = {one.name: np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3) for one in model.inputs}
    whole = {**feed, "unused": np.zeros(2, np.float32)} if change is _unused else feed
    (right,), evaluator = model.reference_outputs([whole], model.program, lambda _: None)
    assert evaluator == litert.evaluator(model.content)
    (found,) = evaluate_program(model.program(), [feed])
    assert found.keys() == right.keys()
    assert all(np.array_equal(found[name], right[name]) for name in right)


def test_axes_without_elements(tmp_path: Path) -> None:
    (found,) = evaluate_program(read(tmp_path, made("RELU", (0, 4), (0, 4))).program(), [{"x": np.zeros((0, 4), "f4")}])
    assert found["y"].shape == (0, 4)


def test_inputs_of_text_and_one_input_twice(tmp_path: Path) -> None:
    writer = made("RELU", (2, 3), (2, 3))
    writer.input((1,), "STRING", name="words")
    with pytest.raises(ModelError, match="'words' of type STRING among its inputs"):
        read(tmp_path, writer)
    writer = made("RELU", (2, 3), (2, 3))
    writer.inputs.append(writer.inputs[0])
    with pytest.raises(ModelError, match="one tensor as two inputs"):
        read(tmp_path, writer)


def test_shapes_are_those_that_the_file_was_converted_for(tmp_path: Path) -> None:
    writer = made("RELU", (1, 3), (1, 3))
    path = tmp_path / "free.tflite"
    for signature, fits in (((-1, 3), True), ((-1, -1), False)):
        tensors = list(writer.tensors)
        tensors[0] = type(tensors[0])("x", (1, 3), "FLOAT32", signature=signature)
        path.write_bytes(Writer(tensors, writer.operators, writer.inputs, writer.outputs).content())
        stored = FORMAT.read(path)
        if fits:
            assert stored.with_shapes({}).inputs[0].shape == (1, 3)
        else:
            with pytest.raises(DynamicShape, match=r"--shape x=1,3"):
                stored.with_shapes({})
        assert stored.with_shapes({"x": (1, 3)}).inputs[0].shape == (1, 3)
        with pytest.raises(ModelError, match="was converted for"):
            stored.with_shapes({"x": (4, 3)})
