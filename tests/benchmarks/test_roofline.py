"""Limits of a core are measured, layers are set against them, and the picture is well-formed."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.peaks import Peaks, measure_peaks, source
from benchmarks.roofline import Layer, layers_of, main, table
from benchmarks.roofline_picture import picture
from edgetune.errors import UsageError
from edgetune.target.target import load_target
from tests.acceptance.case import EXAMPLES, build_case

CORE = max(os.sched_getaffinity(0))
PEAKS = Peaks(1e11, {"L1": 2e11, "L2": 1e11, "DRAM": 1e10})
LAYERS = [
    Layer(0, "a <conv> | b", "conv", 500_000, 20_000, 20.0, "L1", 1e11, "compute"),
    Layer(1, "copy", "copy", 0, 1000, 1.0, "L1", 0.0, "L1"),
    Layer(2, "dense", "dense", 5_000_000, 20_000_000, 4000.0, "DRAM", 5e9, "DRAM"),
]


def test_a_table_tells_share_of_peak_and_of_the_limit() -> None:
    text = table("kws", LAYERS, PEAKS)
    assert "| 0 a <conv> / b | conv | 20.00 | 0.5% | 50.0 | 50% | 50.0 | compute | 50% |" in text
    assert "| 2 dense | dense | 4000.00 | 99.5% | 2.5 | 2% | 0.5 | DRAM | 50% |" in text
    assert "weighted by time: 2.7% of peak" in text
    assert "directly" not in text


def test_layers_that_save_multiplications_are_left_out_of_the_share_of_direct_ones() -> None:
    fast = Layer(3, "tiles", "tiles", 500_000, 20_000, 5.0, "L1", 1e11, "compute", direct=False)
    text = table("kws", [*LAYERS[:2], fast], PEAKS)
    assert "Layers with multiply-adds, weighted by time: 80.0% of peak" in text
    assert "Those that are computed directly, weighted by time: 50.0% of peak in 76.9% of the time." in text


def test_a_picture_has_a_circle_for_each_layer_that_computes() -> None:
    root = ET.fromstring(picture("k & <w>", LAYERS, PEAKS))  # noqa: S314  our own text
    circles = [node for node in root.iter() if node.tag.endswith("circle")]
    assert len(circles) == 2
    assert {"a <conv>" in (node[0].text or "") for node in circles} == {True, False}


def test_limits_are_of_this_machine_and_no_other() -> None:
    peaks = measure_peaks(load_target("host"), CORE, repeats=1)
    assert peaks.flops > 1e8
    assert peaks.bandwidth.keys() == {"L1", "L2", "DRAM"}
    with pytest.raises(UsageError, match="rpi4"):
        measure_peaks(load_target("rpi4"), CORE)


@pytest.mark.long
def test_a_package_has_its_table_and_picture(tmp_path: Path) -> None:
    package = build_case(EXAMPLES / "ad_ae.onnx", "host", tmp_path).package
    layers, peaks, times = layers_of(package, load_target("host"), PEAKS, CORE, 0.2)
    assert peaks.flops > 1e8
    assert peaks.bandwidth == PEAKS.bandwidth
    assert all(0 <= time.undisturbed <= time.samples for time in times)
    assert {layer.level for layer in layers} <= {"L1", "L2", "DRAM"}
    assert all(layer.bytes >= 4 * 128 for layer in layers)
    assert main([str(package), "--seconds", "0.2", "-o", str(tmp_path / "told")]) == 0
    assert (tmp_path / "told" / f"{package.name}.svg").read_text().endswith("</svg>\n")
    assert "Undisturbed samples of a layer" in (tmp_path / "told" / f"{package.name}.md").read_text()
    assert "of peak" in (tmp_path / "told" / f"{package.name}.md").read_text()


def test_the_arrays_of_all_levels_fit_what_is_allocated(tmp_path: Path) -> None:
    target = load_target("host")
    (tmp_path / "peaks.c").write_text(source(target, 1, 4096), encoding="ascii")
    flags = ["-std=gnu11", *target.compiler.cflags, *target.compiler.kernel_cflags, "-fsanitize=address"]
    program = str(tmp_path / "peaks")
    subprocess.run([target.compiler.cc, *flags, "-o", program, str(tmp_path / "peaks.c")], check=True)
    ran = subprocess.run([program], env={"ASAN_OPTIONS": "detect_leaks=0"}, capture_output=True, text=True, check=False)
    assert "heap-buffer-overflow" not in ran.stderr
    assert ran.returncode == 0


def test_a_disturbed_sample_lowers_no_limit() -> None:
    calm = Peaks(2e11, {"L1": 4e11, "L2": 1e11, "DRAM": 1e10})
    disturbed = Peaks(8e10, {"L1": 1e11, "L2": 2e11, "DRAM": 1e9})
    best = Peaks(2e11, {"L1": 4e11, "L2": 2e11, "DRAM": 1e10})
    assert calm.or_better(disturbed) == disturbed.or_better(calm) == best
