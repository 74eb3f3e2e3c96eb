"""A bundle of ds_cnn, and a stub of the CUDA driver with which its runner works on any machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from edgetune.bundle.export import export_bundle
from edgetune.pipeline.model_formats import read_model
from edgetune.resources import templates_dir
from tests.cuda.cpu_check import gpu

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"
STUB = Path(__file__).parent / "stub_driver.c"


def export(out: Path, candidates: int = 2) -> None:
    """Write a bundle of ds_cnn for cuda-generic."""
    export_bundle(read_model(MODEL).program(), gpu(), out, candidates=candidates, seed=1, events=lambda _: None)


def compiled(folder: Path) -> tuple[Path, Path]:
    """The runner, and the stub of the driver."""
    runner, stub = folder / "runner", folder / "libcuda.so"
    strict = ["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-format-truncation"]
    subprocess.run(
        ["gcc", *strict, str(templates_dir() / "bundle/runner.c"), "-o", str(runner), "-ldl", "-lm"], check=True
    )
    subprocess.run(["gcc", *strict, "-shared", "-fPIC", str(STUB), "-o", str(stub)], check=True)
    return runner, stub


def environment(stub: Path, **facts: str) -> dict[str, str]:
    """Environment variables under which the runner loads the stub."""
    return {**os.environ, "EDGETUNE_CUDA_DRIVER": str(stub), **facts}
