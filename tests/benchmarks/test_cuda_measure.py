"""`make cuda-measure`, rehearsed on the CPU: prepared, measured with kills in between, and shown as a table."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks.cuda import far_side
from benchmarks.cuda.far_side import TRIES, spent, steps
from benchmarks.cuda.prepare import How, origin, prepare
from benchmarks.cuda.report import compared, latencies, missing, ratio, read, schedules, table, verdict, wrong
from tests.bundle.bundle_sample import compiled, saved

ROOT = Path(__file__).parents[2]
NVIDIA_SMI = "#!/bin/sh\necho 'Stub GPU, 7.5, 580.65, 1590, 5001, 70.00, [N/A]'\n"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model in fp32 and fp16, whose programs run on the CPU, and a stand-in for nvidia-smi."""
    folder = tmp_path_factory.mktemp("measure")
    w = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32) / 8
    model = saved(folder / "small.onnx", ["a = MatMul x w", "y = Tanh a"], [("y", onnx.TensorProto.FLOAT)], w=w)
    for precision in ("fp32", "fp16"):
        prepare(folder / "out", [model], How(precision=precision, rehearse=True))
    (folder / "bin").mkdir()
    (folder / "bin/nvidia-smi").write_text(NVIDIA_SMI)
    (folder / "bin/nvidia-smi").chmod(0o755)
    return folder / "out"


def command(folder: Path) -> list[str]:
    """The command of the far side, isolated from what is installed here."""
    return ["env", f"PATH={folder.parent / 'bin'}:/usr/bin:/bin", sys.executable, "-S", str(folder / "measure.py")]


@pytest.mark.long
def test_a_killed_measurement_goes_on_and_all_of_it_is_in_the_table(prepared: Path) -> None:
    results = prepared / "results.jsonl"
    with subprocess.Popen(command(prepared), stdout=subprocess.DEVNULL) as process:
        while not results.exists() or '"result"' not in results.read_text():
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    with results.open("a") as file:
        file.write('{"step": "small times", "resu')  # as a kill leaves it
    done = subprocess.run(command(prepared), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "all is done" in done.stdout
    again = subprocess.run(command(prepared), capture_output=True, text=True, check=True, timeout=60)
    assert again.stdout.startswith("all is done")
    found = read(prepared)
    assert found["device"]["result"]["name"] == "Stub GPU"
    assert found["small self-test"]["result"]["said"][-1] == "PASS"
    assert len(latencies("small", found)["edgetune"]) == 5
    (absent,) = found["small times"]["result"]["absent"].items()
    assert absent[0] == "PyTorch"
    assert absent[1].startswith(("is not installed", "finds no CUDA device")), "with PyTorch for the CPU, or with none"
    assert found["small TensorRT"]["failed"] == "TensorRT (trtexec) is not installed"
    assert found["small memcheck"]["failed"] == "compute-sanitizer is not installed"
    assert verdict("small", found) == ("no peer to compare with", False)
    assert found["small_fp16 self-test"]["result"]["said"][-1] == "PASS"
    assert len(latencies("small_fp16", found)["edgetune"]) == 5
    (_, _, row) = table(["small"], found)
    assert row.startswith("| small | ")
    shown = subprocess.run(
        [sys.executable, "-m", "benchmarks.cuda.report", str(prepared)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 1, "without a peer no goal is reached"
    assert "beside the roofline of 1.8 TFLOP/s and 128 GB/s" in " ".join(shown.stdout.split())


@pytest.mark.long
def test_a_folder_says_in_which_precision_its_programs_compute(prepared: Path) -> None:
    for name, precision, stored in (("small", "fp32", "float32"), ("small_fp16", "fp16", "float16")):
        assert json.loads((prepared / name / "facts.json").read_text())["precision"] == precision
        manifest = json.loads((prepared / name / "MANIFEST.json").read_text())
        assert {one["dtype"] for one in manifest["inputs"]} == {"float32"}, "the interface stays as it is"
        assert manifest["memory"]["weights_bytes"] <= 64 * 64 * np.dtype(stored).itemsize + 64


def test_a_step_that_kills_the_machine_is_given_up(prepared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(prepared), str(folder)], check=True)
    begun = [{"step": "small times", "begun": number + 1} for number in range(TRIES)]
    done = [{"step": name, "failed": "not here"} for name in ("device", "small self-test", "small TensorRT")]
    done += [{"step": f"small {tool}", "failed": "not here"} for tool in ("memcheck", "racecheck", "synccheck")]
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in begun + done))
    subprocess.run([*command(folder), "--models", "small"], check=True, timeout=60)
    assert "died 2 times" in read(folder)["small times"]["failed"]


def test_goals_judge_the_peer_that_they_name() -> None:
    turns = [{"side": "edgetune", "median_us": 10.0}, {"side": "PyTorch eager", "median_us": 9.0}]
    turns += [{"side": "torch.compile", "median_us": 16.0}]
    found: dict[str, dict[str, Any]] = {
        "ds_cnn self-test": {"result": {}},
        "ds_cnn times": {"result": {"turns": turns}},
        "resnet50_fp16 self-test": {"result": {}},
        "resnet50_fp16 times": {"result": {"turns": turns}},
        "resnet50_fp16 TensorRT": {"result": {"median_us": 7.0}},
    }
    assert verdict("ds_cnn", found) == ("at least 1.5", True)
    assert verdict("resnet50_fp16", found) == ("**loss**: at least 0.8 is asked", False)


def test_a_peer_with_wrong_outputs_is_shown_and_not_ranked() -> None:
    def row(side: str, median_us: float, **facts: float) -> dict[str, Any]:
        return {"side": side, "median_us": median_us, **facts}

    turns = [row("edgetune", 10.0), row("PyTorch eager", 9.0, error=0.02), row("torch.compile", 16.0, error=5e-4)]
    found: dict[str, dict[str, Any]] = {
        f"{model} {step}": {"result": {"turns": turns}} for model in ("m", "m_fp16") for step in ("self-test", "times")
    }
    assert set(latencies("m", found)) == {"edgetune", "torch.compile"}
    assert ratio("m", latencies("m", found)) == 1.6
    assert [line.partition(" of the largest element")[2] for line in compared("m", found)] == [
        ", **wrong: not ranked**",
        "",
    ]
    assert wrong("m_fp16", found) == {"PyTorch eager"}
    turns[1]["error"] = 5e-3
    assert wrong("m_fp16", found) == set()
    assert wrong("m", found) == {"PyTorch eager"}


def described(folder: Path, sizes: dict[str, int], **facts: Any) -> Path:
    """A folder to measure in, whose models are files of so many bytes, and which has no programs."""
    folder.mkdir()
    (folder / "measure.py").write_text((ROOT / "benchmarks/cuda/far_side.py").read_text())
    for name, size in sizes.items():
        (folder / name).mkdir()
        (folder / name / "model.onnx").write_bytes(bytes(size))
        (folder / name / "facts.json").write_text(json.dumps({"precision": "fp32", "goal": None} | facts))
    return folder


def test_sanitizers_come_last_and_small_models_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = described(tmp_path / "out", {"large": 9, "small": 1})
    (folder / "large/facts.json").write_text(json.dumps({"goal": 1.5}))
    monkeypatch.setattr(far_side, "HERE", folder)
    names = [step.name for step in steps(["large", "small"])]
    assert names.index("small self-test") < names.index("large self-test")
    assert names.index("large times") < names.index("small times"), "it has a goal"
    assert names[-6:] == [f"{model} {tool}" for model in ("small", "large") for tool in far_side.SANITIZERS]


def test_all_steps_and_the_search_share_25_minutes(tmp_path: Path) -> None:
    folder = described(tmp_path / "out", {"small": 1}, tuning={"seconds": 600})
    known: list[dict[str, Any]] = [{"step": "device", "failed": "x", "took": 300.0}]
    known += [{"step": "small times", "begun": 1, "most": 420.0}, {"step": "small times", "begun": 2, "most": 175.0}]
    assert spent(known) == 895.0
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in known))
    done = subprocess.run(command(folder), check=True, timeout=60, capture_output=True, text=True)
    assert "all is done" in done.stdout
    failed = {step: told["failed"] for step, told in read(folder).items() if step != "device"}
    assert set(failed.values()) == {"no time is left of 25 minutes"}
    assert len(failed) == 6


@pytest.mark.long
def test_a_model_that_is_not_there_is_named_with_a_way_to_get_it(tmp_path: Path) -> None:
    """Nothing is built, so neither compiler nor GPU is asked."""
    absent = [f"build/models/{name}.onnx" for name in ("resnet50", "bert_base")]
    words = [sys.executable, "-m", "benchmarks.cuda.prepare", str(tmp_path / "out"), *absent, "--precision", "fp16"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stderr
    makes = "`python examples/make_models.py build/models resnet50` writes it"
    assert f"resnet50_fp16 is missing and will not be measured: {makes}" in done.stderr
    assert "bert_base_fp16 is missing" in done.stderr
    assert [line.split(":")[0] for line in missing(tmp_path / "out")] == ["- resnet50_fp16", "- bert_base_fp16"]
    assert "no script of this repository writes it" in origin(Path(absent[1]))


@pytest.mark.long
@pytest.mark.nvcc
def test_a_machine_with_a_gpu_tunes_before_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub of the driver stands in for the GPU."""
    _, stub = compiled(tmp_path)
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", str(stub))
    w = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32) / 8
    model = saved(tmp_path / "small.onnx", ["y = MatMul x w"], [("y", onnx.TensorProto.FLOAT)], w=w)
    prepare(tmp_path / "out", [model], How(rehearse=True, tune_s=5))
    facts = json.loads((tmp_path / "out/small/facts.json").read_text())
    assert "failed" not in facts["tuning"], facts["tuning"]
    (told,) = schedules(tmp_path / "out", "small")
    assert told.endswith("1 of 1 kernels have a record"), told
