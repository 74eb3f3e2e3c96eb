"""`edgetune compare`: tables, Markdown and JSON of two packages, and times of both in turns."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import edgetune
from edgetune.boards.lock import TimingLock
from edgetune.cli.main import run
from edgetune.farm import gate, two_packages
from edgetune.package.manifest import MANIFEST
from edgetune.package.provenance import KernelProvenance
from edgetune.pipeline.comparison import PackageComparison
from edgetune.verify import starts
from edgetune.verify.starts import Start
from tests import package_sample


def tuned(microseconds: float) -> list[KernelProvenance]:
    one, other = package_sample.provenance()
    time = {"median_us": microseconds, "low_us": microseconds, "high_us": microseconds}
    return [replace(one, **time), replace(other, origin="record", **time, trace_sha256=f"{microseconds:064}")]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two packages of one model: in the second, the schedule of one kernel is another, and faster."""
    folder = tmp_path_factory.mktemp("compare")
    package_sample.emit(folder / "old", origins=tuned(2.0), measure=False)
    package_sample.emit(folder / "new", origins=tuned(1.5), measure=False)
    return str(folder / "old"), str(folder / "new")


def test_tables_have_what_differs_and_one_line_what_is_equal(
    packages: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *packages]) == 0
    said = capsys.readouterr()
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert lines[0] == f"A: {packages[0]} (tiny 1.0.0 for plain-x86)"
    assert "time of all layers, us 6.00 4.50 -1.50 -25.00" in lines
    assert "Add schedule, time 384 384 0 0.00 2.00 1.50 -0.50 -25.00" in lines
    assert lines[-1].startswith("equal: workspace, arena, inputs and outputs, weights, kernels, layers, multiply-adds")
    assert "workspace" not in "".join(lines[:-1])
    assert said.err == ""
    assert run(["compare", packages[0], packages[0]]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["", "equal: all files, byte for byte"]


def test_json_is_what_the_schema_says(packages: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *packages, "--json"]) == 0
    found = PackageComparison.model_validate_json(capsys.readouterr().out)
    assert found == edgetune.Package.open(packages[0]).compare(edgetune.Package.open(packages[1]))
    assert [layer.layer for layer in found.layers] == ["Mul * / one + Add", "second scale", "Add"]
    assert not found.same_files


def test_markdown_shows_names_literally(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("old", "new"):
        package_sample.emit(tmp_path / name, measure=False)
    manifest = json.loads((tmp_path / "new" / MANIFEST).read_text())
    manifest["layers"][0] |= {"label": "a|b\n<img>", "bytes": 1234}
    (tmp_path / "new" / MANIFEST).write_text(json.dumps(manifest))
    assert run(["compare", str(tmp_path / "old"), str(tmp_path / "new"), "--markdown"]) == 0
    out = capsys.readouterr().out
    assert r"| a\|b \<img\> | only in B | - | 1,234 | - | - | - | 1.25 | - | - |" in out
    widths = {line.replace(r"\|", "").count("|") for line in out.splitlines() if line.startswith("| ")}
    assert widths == {11}
    table = edgetune.Package.open(tmp_path / "old").compare(edgetune.Package.open(tmp_path / "new"))._repr_html_()
    assert table.count("<tr>") > 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--board", "host"], "--board needs --bench"),
        (["--json", "--markdown"], "--markdown and --json exclude each other"),
    ],
)
def test_words_that_exclude_each_other(
    words: list[str], sentence: str, packages: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *packages, *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_manifest_with_a_wrong_figure_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package_sample.emit(tmp_path / "tiny", measure=False)
    manifest = json.loads((tmp_path / "tiny" / MANIFEST).read_text())
    for key, wrong in (("memory", {"arena_bytes": -1}), ("memory", {"code_bytes": "much"})):
        changed = manifest | {key: manifest[key] | wrong}
        (tmp_path / "tiny" / MANIFEST).write_text(json.dumps(changed))
        assert run(["compare", str(tmp_path / "tiny"), str(tmp_path / "tiny"), "-q"]) == 17
        assert f"its key '{key}.{next(iter(wrong))}' is wrong" in capsys.readouterr().err


def test_both_are_timed_in_turns(
    packages: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order: list[str] = []
    times = {"old": (2000.0, (1000.0, 600.0, 400.0)), "new": (1500.0, (500.0, 600.0, 400.0))}

    def measured(package: Path, *_: object) -> Start:
        order.append(package.name)
        return Start(*times[package.name])

    monkeypatch.setattr(two_packages, "TimingLock", partial(TimingLock, tmp_path / "lock"))
    monkeypatch.setattr(starts, "build", lambda *_: None)
    monkeypatch.setattr(starts, "start", measured)
    assert run(["compare", *packages, "--bench", "--board", "host", "--json", "-q"]) == 0
    found = PackageComparison.model_validate_json(capsys.readouterr().out)
    assert order[:8] == ["old", "new", "new", "old", "new", "old", "old", "new"]
    assert found.timing is not None
    assert (found.timing.a, found.timing.b, found.timing.turns) == (2.0, 1.5, gate.LEAST_TURNS)
    assert found.timing.low == pytest.approx(0.75) == found.timing.high
    assert [(layer.layer, layer.differs, layer.time.difference) for layer in found.layers] == [
        ("Mul * / one + Add", ("time",), -0.5),
        ("Add", ("schedule",), 0.0),  # its records differ in time, and were not asked
    ]
    assert run(["compare", *packages, "--bench", "-q"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("time of a run"))
    assert line.startswith(
        "time of a run: A 2.00 us, B 1.50 us; B divided by A is 0.7500 (0.7500 to 0.7500 with a prob"
    )


@pytest.mark.long
def test_packages_that_are_timed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MOST_TURNS", 2)
    for name, width in (("old", 64), ("new", 128)):
        package_sample.emit(tmp_path / name, width=width)
    old, new = (edgetune.Package.open(tmp_path / name) for name in ("old", "new"))
    timing = old.compare(new, bench=True).timing
    assert timing is not None
    assert 0 < timing.low <= timing.ratio <= timing.high
    assert (timing.ran_on, timing.turns, len(timing.layers_a), len(timing.layers_b)) == ("this machine", 2, 3, 3)


@pytest.mark.long
def test_where_instructions_are_counted_the_ratio_is_exact(tmp_path: Path) -> None:
    target = package_sample.arm("qemu-aarch64")
    for name, width in (("old", 8), ("same", 8), ("new", 64)):
        package_sample.emit(tmp_path / name, width=width, target=target)
    old, same, new = (edgetune.Package.open(tmp_path / name) for name in ("old", "same", "new"))
    found = old.compare(same, bench=True, board="qemu-aarch64").timing
    assert found is not None
    assert (found.unit, found.ratio, found.low, found.high) == ("instructions", 1.0, 1.0, 1.0)
    found = old.compare(new, bench=True, board="qemu-aarch64").timing
    assert found is not None
    assert found.ratio == found.b / found.a > 2


def test_times_that_would_say_nothing_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package_sample.emit(tmp_path / "arm", target=package_sample.arm("qemu-aarch64"), measure=False)
    package_sample.emit(tmp_path / "x86", measure=False)
    arm, x86 = str(tmp_path / "arm"), str(tmp_path / "x86")
    assert run(["compare", arm, arm, "--bench", "-q"]) == 8
    assert "times on this machine, under qemu-aarch64 say nothing about a real core" in capsys.readouterr().err
    assert run(["compare", arm, x86, "--bench", "-q"]) == 2
    assert "no machine runs both packages, which are for aarch64" in capsys.readouterr().err
    assert run(["compare", arm, x86, "--bench", "--board", "host", "-q"]) == 2
    assert "the package is for aarch64 (board qemu-aarch64), board host is" in capsys.readouterr().err
    assert run(["compare", arm, x86]) == 0
    assert "note: the boards differ: A is for qemu-aarch64, B for plain-x86" in capsys.readouterr().out
