"""The cause of a slower package, told from two packages on disk: toolchain, search, generator, model, several, none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgetune.farm.cause import cause_of
from edgetune.farm.gate import Comparison, JudgedRatio
from edgetune.package.manifest import write_manifest

SAME = JudgedRatio("same", 1.0, 1.0, 1.0, 0.0)


def ratio(value: float) -> JudgedRatio:
    return JudgedRatio("slower", value, value, value, 0.0)


def write(folder: Path, *, flag: str = "-O3", trace: str = "t", code: str = "a", workload: str = "w") -> None:
    """Write the parts of a package that the cause is told from: one kernel with its C, and a built program."""
    package = folder / "package"
    (package / "src").mkdir(parents=True)
    (package / "src" / "m_kernels.c").write_text(f"void m__k(float *x)\n{{\n    *x = {code};\n}}\n")
    (package / "Makefile").write_text(f"CFLAGS = {flag}\n")
    provenance = {"trace_sha256": trace, "workload": workload, "record": f"r{trace}"}
    kernel: dict[str, Any] = {"name": "k", "symbol": "m__k", "sources": [], "macs": 1, "calls": 1}
    compiler = {"cc": "gcc", "cflags": [flag], "ldflags": [], "package": None}
    target: dict[str, Any] = {"name": "b", "isa": "aarch64", "compiler": compiler}
    target |= {"emulator": [], "emulator_package": None}
    facts: dict[str, object] = {
        "generator": {"name": "edgetune", "version": "1"},
        "name": "m",
        "prefix": "m",
        "model": {"file": "m.onnx", "sha256": workload},
        "target": target,
        "memory": {"weights_bytes": 0, "weights_placement": "text", "measured_with": "gcc 12"},
        "inputs": [],
        "outputs": [],
        "goldens": {"cases": 0, "reference": "onnx"},
        "layers": [{"kernel": "k", "label": "layer k", "macs": 1}],
        "kernels": [{**kernel, "provenance": provenance}],
    }
    write_manifest(package, facts)
    build(folder)


def build(folder: Path) -> None:
    """Stand for the compiler: the program depends on C and flags alone."""
    parts = [(folder / "package" / name).read_text() for name in ("src/m_kernels.c", "Makefile")]
    (folder / "built").mkdir(exist_ok=True)
    (folder / "built" / "bench").write_text("".join(parts))


@pytest.mark.parametrize(
    ("changes", "measured", "said"),
    [
        ({"flag": "-O1"}, 1.2, "toolchain: the accepted C is +20.0 % by tonight's compiler and flags (cflags '-O3'"),
        ({"trace": "u", "code": "b"}, 1.0, "search: other schedules for k (rt became ru)"),
        ({"code": "b"}, 1.0, "generator (1 became 1): other C for the schedules of k"),
        ({"workload": "v", "code": "b"}, 1.0, "model: k compute something else"),
        ({"flag": "-O1", "trace": "u", "code": "b"}, 1.1, "several: toolchain: the accepted C is +10.0 %"),
        ({"flag": "-O1"}, 1.0, "cause not found; slower layers: layer k"),
        ({}, 1.0, "cause not found; slower layers: layer k"),
    ],
)
def test_the_factor_that_carries_the_change_is_named(
    tmp_path: Path, changes: dict[str, str], measured: float, said: str
) -> None:
    write(tmp_path / "old")
    write(tmp_path / "new", **changes)
    found = Comparison(ratio(1.2), {0: ratio(1.2)}, 1, True, 100.0, 120.0, "", (100.0,), (120.0,))
    cause = cause_of(tmp_path / "old", tmp_path / "new", found, build, lambda _: ratio(measured))
    assert cause.sentence.startswith(said)
    assert ("+    *x = b;" in cause.diff) == ("code" in changes)
    manifest = json.loads((tmp_path / "old" / "package" / "MANIFEST.json").read_text())
    assert manifest["target"]["compiler"]["cflags"] == ["-O3"]
