"""Models as their makers quantise them: values are right, products are integers, and those of floats have a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.frontend.onnx.disagreement import carried_steps, known_steps
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.float_products import products_of
from edgetune.graph.partition import to_program
from tests.quantised_samples import KINDS, quantised, sample_feed

_DATA = "its data are floats, or integers of 16 bits whose sums may need more than 32"
_CASES = [
    ("U-Net", "qdq per channel", {}),
    ("U-Net", "dynamic", {"its weights are floats": 4}),  # the quantiser leaves the transposed convolution, 4 phases
    ("detector", "qdq", {}),
    ("detector", "operators", {}),
    ("vision transformer", "qdq per channel", {}),
    ("vision transformer", "dynamic", {_DATA: 2}),  # attention
    ("vision transformer", "qdq of 16 bits", {_DATA: 2}),
    ("temporal network", "qdq", {}),
    ("temporal network", "qdq of 16 bits", {}),
    ("unrolled LSTM", "qdq", {}),
    ("unrolled LSTM", "dynamic", {}),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "how", "floats"), _CASES)
def test_products_of_a_quantised_model_are_integers(
    kind: str, how: str, floats: dict[str, int], tmp_path: Path
) -> None:
    onnx.save(KINDS[kind](), tmp_path / "float.onnx")
    model = read_onnx(quantised(tmp_path / "float.onnx", how))
    program = to_program(import_onnx(model))
    products = products_of(program)
    reasons = [one.why for one in products.floats]
    assert {why: reasons.count(why) for why in set(reasons)} == floats
    assert products.integers > 0
    feeds = [sample_feed(model.proto, case) for case in (7, 8)]
    right = np.stack([one["y"] for one in evaluate_model(model, feeds)])
    found = np.stack([one["y"] for one in evaluate_program(program, feeds)])
    steps = known_steps(model) or carried_steps(model, feeds) if how != "dynamic" else {}
    allowed = 1.01 * steps["y"].size if steps else 1e-5 * float(np.max(np.abs(right)))
    np.testing.assert_allclose(found, right, rtol=0, atol=allowed)
