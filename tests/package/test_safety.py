"""What emission and verification must not lose or follow: files of the user's, names that lead outside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.errors import OutputRefused, PackageInvalid
from edgetune.events import Event
from edgetune.package.manifest import MANIFEST, check_files, read_manifest
from edgetune.package.output_folder import check_output_folder
from edgetune.records import RecordFilter, RecordStore
from edgetune.records.record import Fact

AD_AE = Path(__file__).parents[2] / "examples/models/ad_ae.onnx"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("safety")
    flags = CommandLineFlags(model=AD_AE, board="host", out=folder / "ad_ae", db=folder / "records.db")
    api.build(resolve_settings(flags, {}, folder), events=lambda _: None)
    return folder / "ad_ae"


@pytest.mark.long
def test_a_package_with_a_file_of_the_users_is_not_replaced(package: Path) -> None:
    check_output_folder(package)
    (package / "port.c").write_text("/* by hand */\n")
    with pytest.raises(OutputRefused, match=r"port\.c"):
        check_output_folder(package)
    (package / "port.c").unlink()
    (package / "build").mkdir(exist_ok=True)
    check_output_folder(package)


@pytest.mark.long
@pytest.mark.parametrize("name", ["../evil", "src/../../evil", "/etc/passwd"])
def test_names_in_a_manifest_stay_inside(package: Path, name: str) -> None:
    manifest = read_manifest(package)
    manifest["files"] = {name: {"bytes": 0, "sha256": ""}}
    with pytest.raises(PackageInvalid, match="outside"):
        check_files(package, manifest)
    assert json.loads((package / MANIFEST).read_text())["files"]


@pytest.mark.long
def test_a_record_whose_trace_gives_other_text_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    flags = CommandLineFlags(model=AD_AE, board="host", trials=5, out=tmp_path / "out", db=tmp_path / "records.db")
    settings = resolve_settings(flags, {}, tmp_path)
    api.tune(settings, events=lambda _: None)
    with RecordStore.open(settings.db) as store:
        rows = store.list(RecordFilter(status="ok"))  # others are refused on a noisy machine
        correct = [store.get(row["id"]) for row in rows]
        honest = correct[0]
        times = {"median_ns": 1.0, "ci_low_ns": 1.0, "ci_high_ns": 1.0}
        store.add(replace(honest, candidate="f" * 64, samples_ns=(1.0,) * 9, **times))  # type: ignore[arg-type]
    events: list[Event] = []
    result = api.build(settings, events=events.append)
    assert any("ffffffffffffffff" in str(event.data.get("message")) for event in events)
    assert result.measured_kernels == len({record.workload for record in correct})


@pytest.mark.long
def test_records_that_are_trusted_less_than_asked_are_passed_over_with_a_warning(tmp_path: Path) -> None:
    flags = CommandLineFlags(model=AD_AE, board="host", trials=5, out=tmp_path / "out", db=tmp_path / "records.db")
    settings = resolve_settings(flags, {}, tmp_path)
    api.tune(settings, events=lambda _: None)
    with RecordStore.open(settings.db) as store:
        rows = store.list(RecordFilter(status="ok"))  # others are refused on a noisy machine
        correct = [store.get(row["id"]) for row in rows]
        grade: dict[str, Fact] = {"trust": "C", "trust_reason": "for a test"}
        for record in correct:
            store.refine(record, lambda stored: replace(stored, environment={**stored.environment, **grade}))
    events: list[Event] = []
    strict = replace(settings, min_trust="B")
    assert api.build(strict, events=events.append).measured_kernels == 0
    assert any("their trust grade is below B" in str(event.data.get("message")) for event in events)
    measured = api.build(replace(settings, min_trust="C"), events=lambda _: None).measured_kernels
    assert measured == len({record.workload for record in correct}) > 0
    kernels = read_manifest(settings.out)["kernels"]
    told = [(k["provenance"]["trust"], k["provenance"]["trust_reason"]) for k in kernels]
    assert told.count(("C", "for a test")) == measured
