"""Search by bundles with a stub of the driver: rounds go on where the last one ended, and packages use their times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgetune.bundle.manifest import read_manifest
from edgetune.errors import UsageError
from edgetune.pipeline.model_formats import read_model
from edgetune.records import RecordStore
from edgetune.schedule.gpu.neighbours import design_of, neighbours
from edgetune.schedule.gpu.spaces import first_schedules
from edgetune.schedule.gpu_defaults import default_gpu_schedule
from tests.bundle.bundle_sample import MODEL, compiled, saved
from tests.cuda.cpu_check import gpu
from tests.distribution_sample import edgetune

TRIALS = 12


def tuned(folder: Path, facts: Mapping[str, str], trials: int = TRIALS) -> dict[str, Any]:
    words = ["--board", "cuda-generic", "--via", "bundle", "--trials", str(trials), "--db", "r.db", "-o", "out"]
    done = edgetune(["tune", "small.onnx", *words, "--json"], cwd=folder, environment=facts)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("rounds")
    weights = np.random.default_rng(0).standard_normal((64, 96), np.float32)
    saved(place / "small.onnx", ["p = MatMul x w", "y = Relu p"], [("y", onnx.TensorProto.FLOAT)], w=weights)
    return place


@pytest.fixture(scope="module")
def results(folder: Path) -> Mapping[str, dict[str, Any]]:
    """The same command on a machine without a GPU, then twice on one with a GPU, then with a larger budget."""
    _, stub = compiled(folder)
    there = {"EDGETUNE_CUDA_DRIVER": str(stub)}
    found = {"without": tuned(folder, {"CUDA_VISIBLE_DEVICES": ""})}
    found["first manifest"] = json.loads((folder / "out/MANIFEST.json").read_text())
    found["with"] = tuned(folder, there)
    found["manifest"] = json.loads((folder / "out/MANIFEST.json").read_text())
    found["again"] = tuned(folder, there)
    found["more"] = tuned(folder, there, 2 * TRIALS)
    return found


@pytest.mark.long
@pytest.mark.nvcc
def test_without_a_gpu_a_round_waits_to_be_carried_over(folder: Path, results: Mapping[str, dict[str, Any]]) -> None:
    found = results["without"]
    assert found["waiting"] == str(folder / "out-rounds/round-1")
    assert (found["records"], found["rounds"], found["measured_kernels"]) == (0, 1, 0)


@pytest.mark.nvcc
def test_rounds_go_on_until_the_budget_is_used(results: Mapping[str, dict[str, Any]]) -> None:
    found = results["with"]
    assert (found["records"], found["waiting"], found["measured_kernels"]) == (TRIALS, None, 1)
    assert results["again"] == found
    assert results["more"]["records"] == 2 * TRIALS


@pytest.mark.nvcc
def test_no_round_tries_a_candidate_again(folder: Path, results: Mapping[str, dict[str, Any]]) -> None:
    rounds = sorted((folder / "out-rounds").iterdir())
    assert len(rounds) == results["more"]["rounds"] > 1
    names = [one.candidate for bundle in rounds for one in read_manifest(bundle)[0].candidates]
    assert len(names) == len(set(names)) == 2 * TRIALS


@pytest.mark.nvcc
def test_the_package_has_the_fastest_schedule_that_came_back_and_not_the_formula_s(
    folder: Path, results: Mapping[str, dict[str, Any]]
) -> None:
    (kernel,) = read_model(folder / "small.onnx").program().kernels
    with RecordStore.open(folder / "r.db") as store:
        rows = store.list()
        fastest = min(rows, key=lambda row: row["median_ns"])
        trace = store.get(fastest["id"]).trace
    assert trace != default_gpu_schedule(kernel.function, gpu())[0]
    manifest = json.loads((folder / "out/MANIFEST.json").read_text())
    assert f'"record": "{fastest["candidate"][:16]}"' in json.dumps(manifest)
    assert '"origin": "record"' not in json.dumps(results["first manifest"])
    before, after = (json.dumps(results[name]["files"]) for name in ("first manifest", "manifest"))
    assert before != after


@pytest.mark.long
@pytest.mark.nvcc
def test_the_budget_of_several_kernels_is_not_exceeded(tmp_path: Path) -> None:
    _, stub = compiled(tmp_path)
    facts = {"EDGETUNE_CUDA_DRIVER": str(stub)}
    words = ["--board", "cuda-generic", "--precision", "fp16", "--via", "bundle", "--trials", "8", "--db", "r.db"]
    done = edgetune(["tune", str(MODEL), *words, "-o", "out", "--json"], cwd=tmp_path, environment=facts)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == 8  # of six kernels
    manifest = json.loads((tmp_path / "out/MANIFEST.json").read_text())
    assert {kernel["provenance"]["origin"] for kernel in manifest["kernels"]} == {"record"}
    assert "multiply tiles on tensor cores" in (tmp_path / "out/src/ds_cnn_kernels.cu").read_text()


@pytest.mark.long
@pytest.mark.nvcc
def test_build_uses_imported_records_as_well(folder: Path, results: Mapping[str, dict[str, Any]]) -> None:
    assert results["more"]["waiting"] is None
    words = ["--board", "cuda-generic", "--db", "r.db", "-o", "built", "--json"]
    done = edgetune(["build", "small.onnx", *words], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["measured_kernels"] == 1
    assert (folder / "built/src/small_kernels.cu").exists()


@pytest.mark.long
def test_a_neighbour_differs_in_one_decision() -> None:
    kernel = read_model(MODEL).program().kernels[0]
    fastest = next(first_schedules(kernel.function, gpu()))[0]
    known = design_of(kernel.function, gpu(), fastest)
    assert known is not None
    several = [*neighbours(kernel.function, gpu(), [fastest, "no trace"], np.random.default_rng(1))][:10]
    assert len(set(several)) > 3
    for text in several:
        found = design_of(kernel.function, gpu(), text)
        assert found is not None
        assert sum(found[1][name] != known[1][name] for name in known[1]) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--board", "host"], "give the candidates of all kernels with --trials"),
        (
            ["--board", "mps2-an500", "--trials", "1"],
            "no bundle can be made for board 'mps2-an500': its backend 'c-bare-metal' names no kind of candidates",
        ),
        (["--board", "cuda-generic"], "give the candidates of all kernels with --trials"),
    ],
)
def test_what_no_bundle_can_do_is_refused(folder: Path, words: list[str], sentence: str) -> None:
    done = edgetune(["tune", "small.onnx", "--via", "bundle", *words], cwd=folder)
    assert done.returncode == UsageError.exit_code
    assert sentence in done.stderr
