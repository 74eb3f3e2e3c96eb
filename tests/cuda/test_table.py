"""The table of `make cuda-check`: precisions, limits of CPU time, and mobilenet_v2 in a fresh clone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.graph.program import Kernel
from tests.bundle.bundle_sample import saved
from tests.cuda import table
from tests.cuda.cpu_check import Checked, checked
from tests.cuda.table import Row, row_of

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_kernels_of_a_model_in_fp16_store_16_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    operators = ["p = MatMul x w", "q = Softmax p", "y = MatMul q w"]
    model = saved(tmp_path / "small.onnx", operators, [("y", onnx.TensorProto.FLOAT)], w=w)
    stored: list[np.dtype] = []

    def spied(kernel: Kernel, prefix: str) -> Checked:
        check = checked(kernel, prefix=prefix)
        stored.extend(output.dtype for output in check.outputs)
        return check

    monkeypatch.setattr(table, "checked", spied)
    row = row_of(model, "fp16", tmp_path)
    assert (row.kernels, row.faults) == (len(stored), ())
    assert stored.count(np.dtype(np.float16)) == len(stored) - 1, "the last one writes the model's output"


def test_a_model_that_takes_longer_than_its_limit_is_a_fault() -> None:
    for name, most in (("ds_cnn", 60), ("mobilenet_v2", 600)):
        row = Row(name, 1, 0.0, 1.0, ())
        assert row.wrong(most) == ()
        assert row.wrong(most + 1) == (f"took {most + 1} s of CPU, and at most {most} are allowed",)
    assert Row("other", 1, 0.0, 1.0, ("k: off",)).wrong(1e6) == ("k: off",)


@pytest.mark.parametrize("target", ["cuda-check", "cuda-packages"])
def test_a_fresh_clone_makes_mobilenet_v2_first(target: str) -> None:
    words = ["make", "--dry-run", "MOBILENET=build/fresh/mobilenet_v2.onnx", target]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    made, used = said.index("make_models.py build/fresh mobilenet_v2"), said.index(" build/fresh/mobilenet_v2.onnx")
    assert made < used
