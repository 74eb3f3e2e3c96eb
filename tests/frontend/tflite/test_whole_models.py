"""Whole small models through all passes of the compiler, without C, against LiteRT."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from edgetune import api
from edgetune.config.settings import CommandLineFlags
from edgetune.frontend.tflite import litert
from edgetune.frontend.tflite.format import FORMAT
from edgetune.frontend.tflite.reader import read_content
from edgetune.graph.evaluate import evaluate_program
from edgetune.pipeline.boards import resolve_settings
from tests.frontend.tflite.branches import Branches
from tests.frontend.tflite.test_operators import difference
from tests.frontend.tflite.whole_models import MODELS

_CASES = 3
_COMPILED = ("int8 per axis", "int16", "landmarks")


def written(name: str, path: Path) -> Branches:
    """Writes a model with the shapes that LiteRT finds, and its last outputs."""
    type_, build = MODELS[name]
    branches = Branches(type_, random=np.random.default_rng(zlib.crc32(name.encode())))
    outputs = build(branches)
    path.write_bytes(branches.writer.content())
    (every,) = litert.evaluate(read_content(path), [branches.feeds])
    branches.writer = branches.writer.reshaped({tensor: value.shape for tensor, value in every.items()})
    branches.writer.outputs = list(outputs)
    path.write_bytes(branches.writer.content())
    return branches


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_a_whole_model_is_right(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    branches = written(name, path)
    feeds = [branches.feeds] + [
        {key: branches.random.permuted(value) for key, value in branches.feeds.items()} for _ in range(_CASES - 1)
    ]
    right = litert.evaluate(read_content(path), feeds)
    found = evaluate_program(FORMAT.read(path).with_shapes({}).program(), feeds)
    for key in right[0]:
        made, wanted = (np.stack([one[key] for one in every]) for every in (found, right))
        assert difference(made.reshape(wanted.shape), wanted, exact=False) == ""


@pytest.mark.long
@pytest.mark.parametrize("name", _COMPILED)
def test_a_package_of_a_whole_model_passes_its_self_test(name: str, tmp_path: Path) -> None:
    written(name, tmp_path / "model.tflite")
    package = tmp_path / "package"
    flags = CommandLineFlags(model=tmp_path / "model.tflite", board="host", out=package, db=tmp_path / "records.db")
    api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)
    assert "computed by LiteRT's reference kernels" in (package / "REPORT.md").read_text(encoding="utf-8")
    done = subprocess.run(["make", "-s", "-C", package, "selftest"], capture_output=True, text=True, check=False)
    assert done.stdout.strip().splitlines()[-1:] == ["PASS"], done.stdout + done.stderr
