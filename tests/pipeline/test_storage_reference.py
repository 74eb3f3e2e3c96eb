"""Tolerances of 16-bit packages: what storage alone costs is allowed, and said; nothing else is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.events import Event
from edgetune.graph.precision import ALLOWED
from edgetune.pipeline.compile_input import CompileInput, load
from edgetune.pipeline.double_precision_reference import judged_by_storage
from tests.bundle.bundle_sample import saved


def far_from_zero(folder: Path, offset: float) -> CompileInput:
    """A model in fp16 whose tensor between two kernels has values of about one around `offset`."""
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0].astype(np.float32)
    far = np.full(64, offset, np.float32)
    operators = ["p = MatMul x w", "s = Add p c", "q = MatMul s one", "y = Sub q c"]
    model = folder / "far.onnx"
    saved(model, operators, [("y", TensorProto.FLOAT)], w=turned, one=np.eye(64, dtype=np.float32), c=far)
    return load(resolve_settings(CommandLineFlags(model=model, board="cuda-generic", precision="fp16"), {}, folder))


def test_what_storage_costs_is_allowed_and_said(tmp_path: Path) -> None:
    subject, events = far_from_zero(tmp_path, 64.0), list[Event]()
    assert subject.tolerances["y"].relative == ALLOWED["fp16"]
    judged = judged_by_storage(subject, events.append)
    assert judged is not None
    found = judged.tolerances["y"]
    # A half between 64 and 128 is a multiple of 1/16; it is off by 1/32 at most, and the largest element is over 1.
    assert ALLOWED["fp16"] / 1.5 < found.storage_error < 1 / 32
    assert found.relative == pytest.approx(1.5 * found.storage_error)
    assert found.to_json()["storage_error"] == found.storage_error
    assert "storing tensors in 16 bits moves it by" in str(events[0].data["message"])


@pytest.mark.parametrize("offset", [0.0, 16384.0])
def test_nothing_is_allowed_that_storage_does_not_cost_nor_what_leaves_nothing_to_judge(
    tmp_path: Path, offset: float
) -> None:
    events = list[Event]()
    assert judged_by_storage(far_from_zero(tmp_path, offset), events.append) is None
    assert events == []
