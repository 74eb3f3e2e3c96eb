"""Launches with a flushed L2 cache: each is timed by itself, and their times are kept apart from warm ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.bundle.import_results import import_bundle
from edgetune.bundle.manifest import RESULTS, read_manifest
from edgetune.bundle.running import run_bundle
from edgetune.errors import UsageError
from edgetune.records import RecordStore
from tests.bundle.bundle_sample import compiled, saved
from tests.distribution_sample import edgetune

FLUSHED_NS = 1e5  # what a launch after a flush takes longer with the stub


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of one product with warm caches, and one with cold ones."""
    place = tmp_path_factory.mktemp("cold")
    weights = np.random.default_rng(0).standard_normal((64, 96), np.float32)
    saved(place / "small.onnx", ["y = MatMul x w"], [("y", onnx.TensorProto.FLOAT)], w=weights)
    for name, words in (("warm", []), ("cold", ["--cold"])):
        command = ["bundle", "export", "small.onnx", "--board", "cuda-generic", "--candidates", "2", "-o", name]
        done = edgetune([*command, *words], cwd=place)
        assert done.returncode == 0, done.stderr
    compiled(place)
    return place


@pytest.mark.long
@pytest.mark.nvcc
def test_each_launch_of_a_cold_run_is_flushed_and_its_times_are_no_others(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", str(folder / "libcuda.so"))
    fingerprints = []
    with RecordStore.open(tmp_path / "r.db") as store:
        for name in ("warm", "cold"):
            run_bundle(folder / name)
            for line in (folder / name / RESULTS).read_text().splitlines():
                _, _, status, repeats, samples, *_ = line.split()
                assert status == "ok"
                assert int(repeats) > 1
                times = [float(sample) for sample in samples.split(",")]
                assert (min(times) >= FLUSHED_NS, max(times) >= FLUSHED_NS) == (name == "cold", name == "cold")
            assert import_bundle(folder / name, store).imported == 2
            manifest = read_manifest(folder / name)[0]
            assert manifest.caches == name
            fingerprints.append(manifest.target_fingerprint)
        rows = store.list()
    assert len(set(fingerprints)) == 2
    assert sorted(row["environment"]["caches"] for row in rows) == ["cold", "cold", "warm", "warm"]


@pytest.mark.long
@pytest.mark.nvcc
def test_tune_takes_cold_times_alone(folder: Path) -> None:
    facts = {"EDGETUNE_CUDA_DRIVER": str(folder / "libcuda.so")}
    words = ["tune", "small.onnx", "--board", "cuda-generic", "--trials", "2", "--db", "t.db", "-o", "out", "--json"]
    done = edgetune([*words, "--cold"], cwd=folder, environment=facts)
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["records"], json.loads(done.stdout)["measured_kernels"]) == (2, 1)
    with RecordStore.open(folder / "t.db") as store:
        assert {row["environment"]["caches"] for row in store.list()} == {"cold"}
    done = edgetune(["build", *words[1:4], "--db", "t.db", "-o", "built", "--json"], cwd=folder)
    assert json.loads(done.stdout)["measured_kernels"] == 0


@pytest.mark.long
@pytest.mark.nvcc
def test_cold_is_an_option_of_gpus(folder: Path) -> None:
    done = edgetune(["tune", "small.onnx", "--board", "host", "--cold", "--trials", "1"], cwd=folder)
    assert done.returncode == UsageError.exit_code
    assert "board 'host' has no GPU: write 'caches: cold' into its file instead of --cold" in done.stderr
