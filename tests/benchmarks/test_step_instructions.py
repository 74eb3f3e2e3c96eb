"""Instructions of a step on an emulated Cortex-M7, beside those of the window."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.step_instructions import Counts, counts, program
from edgetune.config.input_stream import InputStream
from tests.pipeline.test_streams import WAKE_WORD

TICKS = 10  # two of the timer, in instructions


@pytest.mark.long
def test_a_step_of_the_wake_word_takes_less_than_a_twelfth_of_its_window(tmp_path: Path) -> None:
    found = counts(WAKE_WORD, {"serving_default_input_1:0": InputStream(1)}, "mps2-an500", 32, tmp_path)
    assert found.share < 1 / 12
    assert len(found.window) == len(found.step) == 32
    assert max(found.window) - min(found.window) <= TICKS
    assert max(found.step) <= 1.02 * min(found.step), "steps take alike, wherever they are in the rings of their states"
    assert min(found.step) > 46_040, "more than its multiply-adds"


def test_the_most_of_all_runs_counts() -> None:
    found = Counts("m.tflite", (1000, 1200), (60, 50))
    assert found.share == pytest.approx(0.05)
    assert str(found) == "m.tflite: 1,200 instructions of the window, 60 of a step: 1/20.00"


def test_inputs_are_filled_in_their_type() -> None:
    inputs = [{"field": "x", "dtype": "float32"}, {"field": "y", "dtype": "int8"}]
    text = program({"prefix": "m", "inputs": inputs, "stream": None}, 2)
    assert (
        "i < M_INPUT_X_ELEMENTS; i++)\n            ((float *)(uintptr_t)inputs->x)[i] = (float)random_byte() / 64;"
        in text
    )
    assert "((int8_t *)(uintptr_t)inputs->y)[i] = (int8_t)random_byte();" in text
    assert "@" not in text
    assert "#define m_run counted" in text
