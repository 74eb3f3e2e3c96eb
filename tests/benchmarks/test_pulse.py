"""Steps beside pulses: networks keep their meaning at any length, and a missing or worse side is said."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import pulse
from benchmarks.pulse import NETWORKS, Pulse, Row, of_open_length
from tests.frontend.onnx.streamed import feeds_of, in_runtime, read


@pytest.mark.parametrize("name", list(NETWORKS))
def test_a_network_of_open_length_computes_its_window(name: str) -> None:
    network = NETWORKS[name]
    window, opened = read(network.build(network.window)), of_open_length(network)
    assert opened.graph.input[0].type.tensor_type.shape.dim[network.axis].dim_param == "T"
    feeds = feeds_of(window, {}, 1)
    for found, wanted in zip(
        in_runtime(replace(window, proto=opened))(feeds).values(), in_runtime(window)(feeds).values(), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_a_row_has_both_sides_of_a_frame_and_the_ratio() -> None:
    row = Row("tcn", 4, 440, 8, Pulse(400, 4))
    assert row.ratio == pytest.approx(1.1)
    assert str(row) == "tcn: 110 multiply-adds of a frame, after 8 frames; tract has 100, after 4: 1.100 of it"
    refused = Row("tcn", 4, 440, 8, None, "no rule")
    assert refused.ratio == 0.0
    assert str(refused).endswith("after 8 frames; tract does not stream it: no rule")


def test_without_tract_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    assert pulse.main([]) == 2
    assert capsys.readouterr().err == (
        "benchmarks.pulse compares with tract, which is not installed: run `pip install tract`\n"
    )
