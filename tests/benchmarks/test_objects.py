"""The comparison of what compilers make of two versions of a package."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.objects import functions_of, main
from edgetune.package.manifest import read_manifest, write_manifest
from tests import package_sample

LISTING = """
0000000000000040 <k_exp>:
  40:\tvmovaps 0x0(%rip),%ymm1        # 48 <k_exp+0x8>
\t\t\t44: R_X86_64_PC32\t.rodata.cst4+0x{place}
  48:\tjne    40 <k_exp>
  4a:\tret
"""


def test_places_of_constants_do_not_count() -> None:
    first, second = (functions_of(LISTING.format(place=place)) for place in ("1c", "20"))
    assert first == second
    assert first["k_exp"][1:] == ("R_X86_64_PC32 .rodata.cst4", "jne <k_exp>", "ret")


def test_other_instructions_are_told_by_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for version in ("before", "after"):
        package_sample.emit(tmp_path / version / "tiny", measure=False)
    shutil.copytree(tmp_path / "after", tmp_path / "other")
    assert main([str(tmp_path / "before"), str(tmp_path / "after")]) == 0
    assert "2 of 2 kernels without et_*: the same instructions" in capsys.readouterr().out
    source = tmp_path / "other/tiny/src/tiny_kernels.c"
    source.write_text(source.read_text(encoding="utf-8").replace("a[i] + b[i]", "a[i] - b[i]"), encoding="utf-8")
    write_manifest(tmp_path / "other/tiny", read_manifest(tmp_path / "other/tiny"))
    assert main([str(tmp_path / "before/tiny"), str(tmp_path / "other/tiny")]) == 1
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if line.startswith("tiny: add: ")]
    assert [kernel["same"] for kernel in json.loads(told[-1])["kernels"]] == [True, False]


def test_kernels_are_paired_by_what_they_compute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package_sample.emit(tmp_path / "before/tiny", measure=False)
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    manifest = read_manifest(tmp_path / "after/tiny")
    for path in (tmp_path / "after/tiny/src").glob("*.[ch]"):
        path.write_text(path.read_text(encoding="utf-8").replace("tiny__k_", "tiny__k_new_"), encoding="utf-8")
    for kernel in manifest["kernels"]:
        kernel |= {"name": f"new_{kernel['name']}", "symbol": kernel["symbol"].replace("tiny__k_", "tiny__k_new_")}
    write_manifest(tmp_path / "after/tiny", manifest)
    assert main([str(tmp_path / "before"), str(tmp_path / "after")]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["kernels"]
    assert all(kernel["same"] and kernel["kernel"].startswith("new_") for kernel in found)


def test_different_models_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package_sample.emit(tmp_path / "one/tiny", measure=False)
    shutil.copytree(tmp_path / "one/tiny", tmp_path / "two/other")
    assert main([str(tmp_path / "one"), str(tmp_path / "two")]) == 2
    assert "no package in common" in capsys.readouterr().err
    manifest = read_manifest(tmp_path / "two/other")
    manifest["kernels"][0]["provenance"]["workload"] = "another"
    write_manifest(tmp_path / "two/other", manifest)
    assert main([str(tmp_path / "one/tiny"), str(tmp_path / "two/other")]) == 2
    assert "different kernels" in capsys.readouterr().err
