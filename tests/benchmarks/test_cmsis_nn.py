"""The program that calls CMSIS-NN for the layers of a model: its text alone, for CMSIS-NN is not in this repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cmsis_nn import instructions, program
from edgetune.errors import UsageError
from edgetune.frontend.tflite.reader import read_content
from edgetune.target.target import load_target
from tests.target.test_own_microcontroller import MODEL

TINY = MODEL.parent

pytestmark = pytest.mark.skipif(not MODEL.is_file(), reason=f"{MODEL} is not there")


def test_each_convolution_and_product_is_called_once() -> None:
    text, layers = program(read_content(TINY / "kws_int8.tflite"))
    assert layers == 10
    assert text.count("arm_convolve_wrapper_s8(&context") == 5
    assert text.count("arm_depthwise_conv_wrapper_s8(&context") == 4
    assert text.count("arm_fully_connected_s8(&context") == 1
    assert "@" not in text
    first = text.index("const cmsis_nn_conv_params params = {-83, -128, {2, 2}, {1, 4}, {1, 1}, {-128, 127}};")
    assert (
        "in = {1, 49, 10, 1}, of_filter = {64, 10, 4, 1}, of_bias = {1, 1, 1, 64}, out = {1, 25, 5, 64};"
        in (text[:first])
    )


def test_other_types_and_folders_without_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"for models of int8, and tensor .* is FLOAT32"):
        program(read_content(TINY / "kws_fp32.tflite"))
    with pytest.raises(UsageError, match=r"has no sources of CMSIS-NN .*: name a checkout of it"):
        instructions(MODEL, load_target("mps2-an386"), tmp_path)
