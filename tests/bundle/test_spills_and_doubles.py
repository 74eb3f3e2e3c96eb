"""What a bundle leaves out where it can, and what an import counts once: spilling candidates, results of two GPUs."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.backends.gpu_registers import spills
from edgetune.bundle.export import BundleRequest, export_bundle
from edgetune.bundle.import_results import import_bundle
from edgetune.bundle.manifest import RESULTS, read_manifest
from edgetune.bundle.running import run_bundle
from edgetune.pipeline.model_formats import read_model
from edgetune.records import RecordStore
from edgetune.schedule.gpu.candidate import gpu_candidate
from edgetune.target.cuda_toolkit import require_nvcc
from tests.bundle.bundle_sample import compiled
from tests.target.test_ptxas import with_registers

FEW = 24  # registers of a thread, with which about every second candidate spills


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution of 16 channels."""
    weights = onnx.numpy_helper.from_array(np.ones((16, 16, 3, 3), np.float32), "w")
    tensors = [onnx.helper.make_tensor_value_info(name, 1, [1, 16, 8, 8]) for name in "xy"]
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    graph = onnx.helper.make_graph([node], "convolution", tensors[:1], tensors[1:], [weights])
    path = tmp_path_factory.mktemp("model") / "convolution.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), path)
    return path


@pytest.fixture(scope="module")
def sent(model: Path) -> tuple[Path, dict[str, object]]:
    out = model.parent / "sent"
    program = read_model(model).program()
    return out, export_bundle(program, with_registers(FEW), out, BundleRequest(8, seed=1), lambda _: None)


@pytest.mark.long
@pytest.mark.nvcc
def test_candidates_that_spill_are_left_out_while_there_are_others(
    model: Path, sent: tuple[Path, dict[str, object]]
) -> None:
    folder, counts = sent
    kernels = {kernel.workload: kernel for kernel in read_model(model).program().kernels}
    target = with_registers(FEW)
    entries = read_manifest(folder)[0].candidates
    assert isinstance(counts["spilling"], int)
    assert counts["spilling"] > 0
    assert len(entries) == counts["candidates"]
    assert {one.workload for one in entries} == kernels.keys()
    for one in entries:
        assert not spills(gpu_candidate(kernels[one.workload], one.trace, target), target, require_nvcc(target))


@pytest.mark.long
@pytest.mark.nvcc
def test_results_of_two_machines_and_doubled_lines_count_once(
    sent: tuple[Path, dict[str, object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times of the second machine differ, and the first that comes back stays."""
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", str(compiled(tmp_path)[1]))
    number = len(read_manifest(sent[0])[0].candidates)
    first, second = (Path(shutil.copytree(sent[0], tmp_path / name)) for name in ("first", "second"))
    run_bundle(first)
    lines = (first / RESULTS).read_text().splitlines()
    changed = [line.split() for line in lines]
    for words in changed:
        words[4] = ",".join(str(2 * float(sample)) for sample in words[4].split(","))
    (first / RESULTS).write_text("".join(f"{line}\n" for line in [*lines, *lines, lines[0]]))
    (second / RESULTS).write_text("".join(" ".join(words) + "\n" for words in changed))
    with RecordStore.open(tmp_path / "r.db") as store:
        here = import_bundle(first, store)
        assert (here.imported, here.known, here.refused, here.missing) == (number, number + 1, 0, 0)
        medians = {row["candidate"]: row["median_ns"] for row in store.list()}
        there = import_bundle(second, store)
        assert (there.imported, there.known, there.refused, there.missing) == (0, number, 0, 0)
        assert {row["candidate"]: row["median_ns"] for row in store.list()} == medians
    assert len(medians) == number
