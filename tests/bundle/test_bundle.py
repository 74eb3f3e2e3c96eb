"""Bundles there and back with a stub of the driver: killed, altered, of another version, imported twice."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetune.bundle.export import BundleRequest, export_bundle
from edgetune.bundle.import_results import import_bundle
from edgetune.bundle.manifest import MANIFEST, RESULTS, VERSION, BundleManifest, read_manifest
from edgetune.bundle.running import run_bundle
from edgetune.errors import BoardUnavailable, BoardUnfit, BundleInvalid, CompileFailed, OutputRefused
from edgetune.graph.precision import with_precision
from edgetune.pipeline.model_formats import read_model
from edgetune.records import RecordStore
from edgetune.target.gpu import GpuTarget
from edgetune.target.preferences import Precision
from tests.bundle.bundle_sample import compiled, environment, export, saved
from tests.cuda.cpu_check import gpu


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    export(folder / "sent")
    compiled(folder)
    return folder


@pytest.fixture
def bundle(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(whole / "sent", tmp_path / "sent")
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", str(whole / "libcuda.so"))
    return tmp_path / "sent"


def imported(bundle: Path, store: RecordStore) -> tuple[int, int, int, int]:
    counts = import_bundle(bundle, store)
    return counts.imported, counts.known, counts.refused, counts.missing


@pytest.mark.long
@pytest.mark.nvcc
def test_every_candidate_comes_back_once_however_often_it_is_run_and_imported(bundle: Path, tmp_path: Path) -> None:
    manifest, name = read_manifest(bundle)
    number = len(manifest.candidates)
    assert number == 11
    with RecordStore.open(tmp_path / "records.db") as store:
        for _ in range(2):
            assert run_bundle(bundle)["results"] == number
        assert imported(bundle, store) == (number, 0, 0, 0)
        assert imported(bundle, store) == (0, number, 0, 0)
        rows = store.list()
    assert len(rows) == number
    assert {row["status"] for row in rows} == {"ok"}
    assert {row["environment"]["bundle"] for row in rows} == {name}
    assert {row["environment"]["trust"] for row in rows} == {"C"}


@pytest.mark.long
@pytest.mark.nvcc
def test_no_sample_is_lost_or_counted_twice_where_the_runner_is_killed(
    whole: Path, bundle: Path, tmp_path: Path
) -> None:
    number = len(read_manifest(bundle)[0].candidates)
    moments = random.Random(1)  # noqa: S311
    with RecordStore.open(tmp_path / "records.db") as store:
        stored = 0
        for _ in range(20):
            with subprocess.Popen(
                [str(whole / "runner"), str(bundle)], env=environment(whole / "libcuda.so")
            ) as runner:
                time.sleep(moments.random() * 0.01)
                runner.kill()
            if (bundle / RESULTS).exists():
                counts = import_bundle(bundle, store)
                assert counts.refused == 0
                stored += counts.imported
        run_bundle(bundle)
        stored += import_bundle(bundle, store).imported
        assert stored == len(store.list()) == number
    lines = (bundle / RESULTS).read_text().splitlines()
    assert len({line.split()[0] for line in lines}) == len(lines) == number


@pytest.mark.long
@pytest.mark.nvcc
def test_a_candidate_that_crashes_or_is_wrong_leaves_the_others_unharmed(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_FAULT", "crash")
    run_bundle(bundle)
    statuses = [line.split()[2] for line in (bundle / RESULTS).read_text().splitlines()]
    assert set(statuses) == {"ok", "crashed"}
    with RecordStore.open(tmp_path / "records.db") as store:
        assert imported(bundle, store)[2] == 0
    (bundle / RESULTS).unlink()
    monkeypatch.setenv("STUB_FAULT", "wrong")
    run_bundle(bundle)
    assert {line.split()[2] for line in (bundle / RESULTS).read_text().splitlines()} == {"wrong_result"}


@pytest.mark.nvcc
def test_a_candidate_that_hangs_is_ended(bundle: Path, whole: Path) -> None:
    plan = bundle / "plan.txt"
    plan.write_text(plan.read_text().replace("timeout 20 ", "timeout 1 ", 1))
    done = subprocess.run(
        [str(whole / "runner"), str(bundle)], env=environment(whole / "libcuda.so", STUB_FAULT="hang"), check=False
    )
    assert done.returncode == 0
    assert {line.split()[2] for line in (bundle / RESULTS).read_text().splitlines()} == {"ok", "timeout"}


@pytest.mark.long
@pytest.mark.nvcc
def test_another_part_no_driver_and_an_old_folder_are_refused_in_a_sentence(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_PART", "90")
    with pytest.raises(BoardUnfit, match=r"are for compute capability 7\.5, and Stub GPU has 9\.0"):
        run_bundle(bundle)
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", "/gone/libcuda.so.1")
    with pytest.raises(BoardUnavailable, match="has no CUDA driver"):
        run_bundle(bundle)
    with pytest.raises(OutputRefused, match="exists already"):
        export(bundle)


@pytest.mark.long
@pytest.mark.nvcc
def test_a_driver_that_is_older_than_the_toolkit_is_refused(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_DRIVER", "11080")
    with pytest.raises(BoardUnfit, match=r"compiled by CUDA 1\d, and the driver of Stub GPU knows CUDA 11\.8: install"):
        run_bundle(bundle)
    assert not (bundle / RESULTS).read_text()


@pytest.mark.long
@pytest.mark.nvcc
def test_results_of_another_bundle_do_not_count_as_its_own(bundle: Path) -> None:
    """A bundle that was exported again: the runner tries what the import would refuse."""
    manifest, name = read_manifest(bundle)
    other = "".join(f"{one.candidate} {'0' * 64} ok 1 5,5 0 driver\n" for one in manifest.candidates)
    (bundle / RESULTS).write_text(other)
    run_bundle(bundle)
    lines = (bundle / RESULTS).read_text().splitlines()
    assert sum(line.split()[1] == name for line in lines) == len(manifest.candidates)


def _exported(model: Path, out: Path, target: GpuTarget | None = None) -> Path:
    program = read_model(model).program()
    export_bundle(program, target or gpu(), out, BundleRequest(candidates=1, seed=1), lambda _: None)
    return out


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("written", ["", "wrong"])
def test_outputs_that_are_no_floats_are_compared_exactly(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """One byte each: a comparison as floats would see only whole words of them."""
    limit = np.zeros((1, 1), np.float32)
    model = saved(tmp_path / "m.onnx", ["y = Greater x l"], [("y", onnx.TensorProto.BOOL)], l=limit)
    sent = _exported(model, tmp_path / "sent")
    assert "\nbuffer e 64 " in (sent / "plan.txt").read_text()
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", str(whole / "libcuda.so"))
    monkeypatch.setenv("STUB_FAULT", written)
    run_bundle(sent)
    (line,) = (sent / RESULTS).read_text().splitlines()
    assert line.split()[2] == ("wrong_result" if written else "ok")


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize(("precision", "role"), [("fp16", "h"), ("bf16", "b")])
@pytest.mark.parametrize(("written", "status"), [("near", "ok"), ("far", "wrong_result")])
def test_outputs_of_16_bits_are_compared_within_a_tolerance(
    precision: Precision,
    role: str,
    written: str,
    status: str,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Candidates that sum in another order are off by a unit in the last place; the first kernel of two is asked."""
    weights = np.random.default_rng(0).standard_normal((64, 32), np.float32)
    model = saved(tmp_path / "m.onnx", ["t = MatMul x w", "y = Softmax t"], [("y", onnx.TensorProto.FLOAT)], w=weights)
    sent = tmp_path / "sent"
    program = with_precision(read_model(model).program(), precision)
    export_bundle(program, gpu(), sent, BundleRequest(candidates=1, seed=1), lambda _: None)
    assert f"\nbuffer {role} 64 " in (sent / "plan.txt").read_text()
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", str(whole / "libcuda.so"))
    monkeypatch.setenv("STUB_FAULT", written)
    run_bundle(sent)
    line, *_ = (sent / RESULTS).read_text().splitlines()
    assert line.split()[2] == status


@pytest.mark.long
@pytest.mark.nvcc
def test_a_reference_that_is_not_a_number_refuses_no_candidate(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = _exported(saved(tmp_path / "m.onnx", ["y = Log x"], [("y", onnx.TensorProto.FLOAT)]), tmp_path / "sent")
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", str(whole / "libcuda.so"))
    run_bundle(sent)
    (line,) = (sent / RESULTS).read_text().splitlines()
    assert line.split()[2] == "ok"


@pytest.mark.nvcc
def test_a_compiler_that_refuses_every_candidate_leaves_no_empty_bundle(tmp_path: Path) -> None:
    model = saved(tmp_path / "m.onnx", ["y = Relu x"], [("y", onnx.TensorProto.FLOAT)])
    compiler = gpu().compiler.model_copy(update={"nvccflags": ("--no-such-flag",)})
    with pytest.raises(CompileFailed, match=r"no candidate of kernel \w+ can be compiled for cuda-generic: .*no-such"):
        _exported(model, tmp_path / "sent", gpu().model_copy(update={"compiler": compiler}))
    assert not (tmp_path / "sent").exists()


@pytest.mark.nvcc
def test_a_plan_cannot_name_files_outside_of_the_bundle(bundle: Path, whole: Path) -> None:
    plan = bundle / "plan.txt"
    lines = plan.read_text().splitlines()
    lines[2] = "buffer i 4 ../../secret"
    plan.write_text("\n".join([*lines, ""]))
    done = subprocess.run(
        [str(whole / "runner"), str(bundle)],
        env=environment(whole / "libcuda.so"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (5, "bundle: plan.txt is damaged: copy the bundle again\n")


def _change(bundle: Path, **changes: object) -> None:
    content = json.loads((bundle / MANIFEST).read_text())
    (bundle / MANIFEST).write_text(json.dumps(content | changes))


@pytest.mark.nvcc
def test_an_altered_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    _change(bundle, version=VERSION - 1)
    with pytest.raises(BundleInvalid, match="of another version"):
        read_manifest(bundle)
    _change(bundle, version=VERSION, target="another")
    with pytest.raises(BundleInvalid, match="was changed after it was written"):
        read_manifest(bundle)
    _change(bundle, target="cuda-generic", more=1)
    with pytest.raises(BundleInvalid, match="cannot be used"):
        read_manifest(bundle)
    (bundle / MANIFEST).unlink()
    (bundle / MANIFEST).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleInvalid, match="cannot be read"):
        read_manifest(bundle)


@pytest.mark.nvcc
def test_an_altered_plan_or_cubin_is_not_run(bundle: Path) -> None:
    cubin = next((bundle / "cubins").iterdir())
    held = cubin.read_bytes()
    cubin.write_bytes(held[:-1] + b"?")
    with pytest.raises(BundleInvalid, match="was changed after it was written"):
        run_bundle(bundle)
    cubin.write_bytes(held)
    (bundle / "plan.txt").write_text((bundle / "plan.txt").read_text() + "end\n")
    with pytest.raises(BundleInvalid, match=r"plan\.txt was changed"):
        run_bundle(bundle)


@pytest.mark.long
@pytest.mark.nvcc
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.integers(0, 4000),
    garbage=st.one_of(st.binary(max_size=40), st.sampled_from([b"\n", b" ", b"nan", b"inf", b"-1", b"../x", b"\0"])),
    cut=st.booleans(),
)
def test_altered_results_are_refused_line_by_line(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, place: int, garbage: bytes, cut: bool
) -> None:
    """Whatever is in results.txt: nothing but the candidates of the bundle is stored, each at most once."""
    ran = whole / "ran"
    if not ran.exists():
        shutil.copytree(whole / "sent", ran)
        subprocess.run([str(whole / "runner"), str(ran)], env=environment(whole / "libcuda.so"), check=True)
    sent = tmp_path_factory.mktemp("altered")
    shutil.copy(ran / MANIFEST, sent / MANIFEST)
    data = (ran / RESULTS).read_bytes()
    (sent / RESULTS).write_bytes(data[:place] + garbage + (b"" if cut else data[place:]))
    known = {one.candidate for one in read_manifest(sent)[0].candidates}
    with RecordStore.open(sent / "records.db") as store:
        counts = import_bundle(sent, store)
        rows = store.list()
        assert {row["candidate"] for row in rows} <= known
        assert len(rows) == counts.imported == len(known) - counts.missing
        assert counts.refused <= 1 + garbage.count(b"\n") + 1


@pytest.mark.long
@pytest.mark.nvcc
def test_two_exports_are_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    export(tmp_path / "again")
    for path in sorted(path for path in (whole / "sent").rglob("*") if path.is_file()):
        assert (tmp_path / "again" / path.relative_to(whole / "sent")).read_bytes() == path.read_bytes()
    assert isinstance(read_manifest(tmp_path / "again")[0], BundleManifest)
    assert gpu().name == read_manifest(tmp_path / "again")[0].target
