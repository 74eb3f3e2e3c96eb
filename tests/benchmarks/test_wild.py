"""The wild networks of the oracle: they are valid, equal in every process, and imported right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from benchmarks.oracle.corpus import corpus
from benchmarks.oracle.wild import WILD
from edgetune.graph.evaluate import evaluate_program

SHARED = Path(__file__).parents[3] / "shared" / "models"


@pytest.mark.parametrize("name", WILD)
def test_a_network_is_valid_and_always_the_same(name: str) -> None:
    first, second = WILD[name](), WILD[name]()
    onnx.checker.check_model(first, full_check=True)
    assert first.SerializeToString() == second.SerializeToString()


@pytest.mark.long
@pytest.mark.parametrize("name", WILD)
def test_a_network_is_imported_right(name: str) -> None:
    model = corpus(SHARED)[name].read()
    feed = model.sample_inputs(model.inputs, 1, 0)[0]
    (found,) = evaluate_program(model.program(), [feed])
    content = WILD[name]().SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for output, wanted in zip(session.get_outputs(), session.run(None, feed), strict=True):
        assert np.std(wanted) > 0.01  # the weights are no zeros
        np.testing.assert_allclose(found[output.name], wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
