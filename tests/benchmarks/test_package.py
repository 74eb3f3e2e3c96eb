"""The library that is timed gives the package's own answers, from a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.result import difference
from benchmarks.run import main
from benchmarks.side import CannotLoad, Case
from benchmarks.side_process import SideProcess
from tests import package_sample as sample


def case(package: Path, work: Path) -> Case:
    program = sample.program()
    outputs = tuple(spec.name for spec in program.outputs)
    return Case("tiny", package / "none.onnx", package, program.inputs, outputs, work)


def process(name: str, given: Case) -> SideProcess:
    return SideProcess(name, given, max(os.sched_getaffinity(0)))


def test_a_package_answers_and_is_timed_in_its_own_process(tmp_path: Path) -> None:
    package = tmp_path / "tiny"
    sample.emit(package)
    side = process("edgetune", case(package, tmp_path / "work"))
    try:
        loaded = side.load()
        for golden in sample.goldens(sample.program(), 2):
            assert difference(side.answer(golden.inputs), golden.outputs) < 1e-6
        timed = side.measure(0.01)
    finally:
        side.stop()
    assert "1 of 2 kernels tuned" in loaded.settings
    assert timed.calls >= 5
    assert 0 < timed.min_ns <= timed.median_ns
    assert not (package / "build").exists()


def test_a_side_that_cannot_load_says_why(tmp_path: Path) -> None:
    side = process("edgetune", case(tmp_path / "missing", tmp_path / "work"))
    try:
        with pytest.raises(CannotLoad, match=r"^/.* is not a folder: give the folder of a package$"):
            side.load()
    finally:
        side.stop()


def test_packages_and_models_come_in_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = [str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")]
    assert main(["--model", *models, "--package", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    assert "one --package for each --model" in capsys.readouterr().err


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--peers", "onnxruntime,tensorrt"])
    assert "there is no peer 'tensorrt'" in capsys.readouterr().err
