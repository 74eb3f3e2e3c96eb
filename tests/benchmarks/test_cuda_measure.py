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

from benchmarks.cuda.far_side import TRIES
from benchmarks.cuda.prepare import How, prepare
from benchmarks.cuda.report import latencies, read, table, verdict
from tests.bundle.bundle_sample import saved

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
    assert found["small times"]["result"]["absent"]["PyTorch"].startswith("is not installed")
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
