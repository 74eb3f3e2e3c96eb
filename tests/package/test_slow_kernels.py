"""Kernels far below what the core allows are named in the report, and a warning names the worst."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.errors import PackageInvalid
from edgetune.events import Event
from edgetune.package.explain import explain
from edgetune.package.manifest import read_manifest
from edgetune.package.provenance import KernelProvenance
from tests import package_sample as sample

DTYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16")
LIMIT = "L2, 90.0 GB/s"


def measured(roofline_us: float, median_us: float = 10.0) -> KernelProvenance:
    return replace(sample.provenance()[0], median_us=median_us, roofline_us=roofline_us, roofline_limit=LIMIT)


def unmeasured(share: float | None) -> KernelProvenance:
    return replace(sample.provenance()[1], predicted_share=share)


def told(out: Path, *origins: KernelProvenance) -> tuple[list[str], str]:
    """The warnings of a package with these kernels, and the part of its report on slow kernels."""
    events: list[Event] = []
    summary = sample.emit(out, origins=list(origins), measure=False, on_event=events.append)
    warnings = [str(event.data["message"]) for event in events if event.kind == "warning"]
    assert list(summary.warnings) == warnings
    text = (out / "REPORT.md").read_text(encoding="utf-8")
    return warnings, text.partition("## Slow kernels\n")[2].partition("\n## Accuracy")[0]


@pytest.mark.parametrize(
    ("roofline_us", "named", "warned"), [(5.0, False, False), (4.9, True, False), (1.9, True, True)]
)
def test_under_half_of_its_roofline_is_told_and_under_a_fifth_warned_of(
    tmp_path: Path, roofline_us: float, *, named: bool, warned: bool
) -> None:
    warnings, report = told(tmp_path / "out", measured(roofline_us), unmeasured(None))
    assert ("| scale\\_add |" in report) == named
    assert ("Every kernel with a roofline reaches half of it" in report) != named
    assert bool(warnings) == warned
    if warned:
        assert warnings == [f"scale_add is slow: it takes 10.00 us, and its roofline is 1.90 us ({LIMIT})"]


def test_a_kernel_of_less_than_a_microsecond_is_mostly_its_call(tmp_path: Path) -> None:
    warnings, report = told(tmp_path / "out", measured(0.01, 0.9), unmeasured(None))
    assert not warnings
    assert "| scale\\_add |" not in report


@pytest.mark.parametrize(("share", "named", "warned"), [(0.6, False, False), (0.4, True, False), (0.1, True, True)])
def test_a_default_schedule_is_judged_by_its_prediction(
    tmp_path: Path, share: float, *, named: bool, warned: bool
) -> None:
    warnings, report = told(tmp_path / "out", sample.provenance()[0], unmeasured(share))
    assert ("| add |" in report) == named
    assert bool(warnings) == warned


def test_plain_loops_are_always_warned_of(tmp_path: Path) -> None:
    warnings, report = told(tmp_path / "out", sample.provenance()[0], unmeasured(0.0))
    assert warnings == ["add is slow: no schedule rule fits it, so it has plain loops without vectors"]
    assert "| add | 0 % |" in report


def test_without_limits_and_predictions_the_report_says_nothing(tmp_path: Path) -> None:
    assert told(tmp_path / "out", *sample.provenance()) == ([], "")
    for kernel in read_manifest(tmp_path / "out")["kernels"]:
        assert not {"roofline_us", "roofline_share", "roofline_limit", "predicted_share"} & kernel["provenance"].keys()


def test_manifest_and_explain_have_the_roofline(tmp_path: Path) -> None:
    told(tmp_path / "out", measured(2.5), unmeasured(0.4))
    kept = {kernel["name"]: kernel["provenance"] for kernel in read_manifest(tmp_path / "out")["kernels"]}
    assert kept["scale_add"]["roofline_us"] == 2.5
    assert kept["scale_add"]["roofline_share"] == 0.25
    assert kept["add"]["predicted_share"] == 0.4
    shown = explain(tmp_path / "out", "scale_add").to_json()
    assert shown["roofline_share"] == 0.25
    assert shown["roofline_limit"] == LIMIT
    manifest = tmp_path / "out" / "MANIFEST.json"
    manifest.write_text(manifest.read_text().replace('"roofline_limit"', '"rooflin_limit"'))
    with pytest.raises(PackageInvalid, match="rooflin_limit"):
        explain(tmp_path / "out", "scale_add")


def test_five_kernels_are_warned_of_and_the_others_counted(tmp_path: Path) -> None:
    """The first are those of which a run loses most time."""
    model, made, cases = sample.copies([(dtype, (4,)) for dtype in DTYPES])
    origins = [measured(0.5, 10.0 + number) for number in range(8)]
    events: list[Event] = []
    sample.write(sample.compiled(model, made, origins), cases, tmp_path / "out", measure=False, on_event=events.append)
    warnings = [str(event.data["message"]) for event in events]
    assert [text.partition(" ")[0] for text in warnings[:5]] == [f"copy_{number}" for number in (7, 6, 5, 4, 3)]
    assert warnings[5:] == ["3 more kernels are as slow: REPORT.md names all"]
