"""Short-time Fourier transforms whose window, step and length come in the forms that exporters write."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.double import evaluate_in_double
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.partition import to_program
from tests.interpreter import run_program

FORMS = {
    "window by a function": "w = HannWindow (length) y = STFT (x, step, w, length)",
    "window of a local function": "w = own.hann (length) y = STFT (x, step, w)",
    "length of arithmetic": "w = HannWindow (length) n = Mul (step, step) y = STFT (x, step, w, n)",
    "length of a shape": "w = HannWindow (length) extents = Shape (w) n = Squeeze (extents) y = STFT (x, step, w, n)",
    "no window": "y = STFT (x, step, , length)",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("signal", ["[1, 64, 1]", "[1, 64]"])
def test_a_transform_of_each_form_has_the_values_of_onnx_runtime(form: str, signal: str) -> None:
    """A real signal may leave out its last axis, as PyTorch's does: that ended in an unknown shape."""
    text = f"""
    <ir_version: 8, opset_import: ["": 17, "own": 1]>
    main (float{signal} x) => (float[1, 13, 9, 2] y) <int64 step = {{4}}, int64 length = {{16}}> {{ {FORMS[form]} }}
    <domain: "own", opset_import: ["": 17]>
    hann (length) => (window) {{ window = HannWindow (length) }}
    """
    model = model_from_proto(onnx.parser.parse_model(text), "0" * 64, "m", None, "m.onnx")
    extents = [1, 64, 1][: signal.count(",") + 1]
    feed = {"x": np.random.default_rng(2).standard_normal(extents).astype("f4")}
    found = run_program(to_program(import_onnx(model)), feed)["y"]
    np.testing.assert_allclose(found, evaluate_model(model, [feed])[0]["y"], rtol=1e-4, atol=1e-4)


def test_a_reference_is_found_where_onnx_runtime_infers_another_shape() -> None:
    """It takes a transform without `onesided` for a two-sided one, and refuses a product behind it."""
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    main (float[1, 64] x) => (float[1, 13, 5] y) <int64 step = {4}, int64 length = {16}> {
        w = HannWindow (length)
        image = STFT (x, step, w)
        power = ReduceSumSquare <axes = [3], keepdims = 0> (image)
        extents = Constant <value_ints = [9, 5]> ()
        ones = ConstantOfShape <value = float[1] {1}> (extents)
        y = MatMul (power, ones)
    }
    """
    model = model_from_proto(onnx.parser.parse_model(text), "0" * 64, "m", None, "m.onnx")
    feed = {"x": np.random.default_rng(2).standard_normal((1, 64)).astype("f4")}
    found = run_program(to_program(import_onnx(model)), feed)["y"]
    np.testing.assert_allclose(found, evaluate_model(model, [feed])[0]["y"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("window", "length", "samples", "words"),
    [
        (6, 8, 32, "has a window of 6 values and frames of 8; make both equal"),
        (10, 8, 32, "has a window of 10 values and frames of 8; make both equal"),
        (8, 8, 6, "takes frames of 8 values, one each 4, from a signal of 6; give a longer signal"),
    ],
)
def test_a_window_that_is_no_frame_and_a_signal_without_one_are_named(
    window: int, length: int, samples: int, words: str
) -> None:
    """It was "cannot reshape array of size 10 into shape (1,1,8,1)"."""
    text = f"""
    <ir_version: 8, opset_import: ["": 17]>
    main (float[1, {samples}, 1] x) => (float[1, f, n, 2] y)
    <int64 s = {{4}}, int64 l = {{{length}}}, float[{window}] w = {{{", ".join(["1"] * window)}}}> {{
      y = STFT (x, s, w, l)
    }}
    """
    model = model_from_proto(onnx.parser.parse_model(text), "0" * 64, "m", None, "m.onnx")
    with pytest.raises(UnsupportedOperator, match=rf"^node 'y': operator STFT {words}"):
        import_onnx(model)


@pytest.mark.parametrize("signal", ["[2, 64, 1]", "[2, 64]"])
def test_a_transform_in_double_is_that_of_numpy(signal: str) -> None:
    text = f"""
    <ir_version: 8, opset_import: ["": 17]>
    main (float{signal} x) => (float[2, 13, 9, 2] y) <int64 step = {{4}}, int64 length = {{16}}> {{
        y = STFT (x, step, , length)
    }}
    """
    model = model_from_proto(onnx.parser.parse_model(text), "0" * 64, "m", None, "m.onnx")
    x = np.random.default_rng(2).standard_normal((2, 64)).astype("f4")
    feed = {"x": x.reshape([2, 64, 1][: signal.count(",") + 1])}
    frames = np.stack([np.fft.rfft(x[:, begin : begin + 16].astype("f8")) for begin in range(0, 49, 4)], axis=1)
    expected = np.stack([frames.real, frames.imag], axis=-1)
    np.testing.assert_allclose(evaluate_in_double(model, [feed])[0]["y"], expected, rtol=1e-12, atol=1e-12)
