"""The cause of a slower package: toolchain, generator, search, model, several, none; and a board that is slower."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edgetune.config.settings import Settings
from edgetune.farm.causes.board import change_of, past_of
from edgetune.farm.causes.cause import Cause, cause_of
from edgetune.farm.causes.factors import SlowerPackage
from edgetune.farm.causes.kernels import diff
from edgetune.farm.causes.rebuilding import Rebuilding, schedules_in
from edgetune.farm.gate import Comparison, JudgedRatio
from edgetune.package.manifest import write_manifest
from edgetune.records import RecordStore
from edgetune.verify.starts import Start
from tests import package_sample
from tests.records.test_records import record


def ratio(value: float) -> JudgedRatio:
    return JudgedRatio("slower", value, value, value, 0.0)


def write(
    folder: Path,
    *,
    flag: str = "-O3",
    trace: str = "t",
    code: str = "a",
    workload: str = "w",
    name: str = "m",
    link: str = "-lm",
) -> None:
    """Write the parts of a package that the cause is told from: one kernel with its C, and a built program."""
    package = folder / "package"
    (package / "src").mkdir(parents=True)
    (package / "src" / "m_kernels.c").write_text(
        f"void m__k(float *x)\n{{\n    *x = {code} + {trace} + {workload};\n}}\n"
    )
    (package / "src" / f"{name}.c").write_text("")
    flags = f"CFLAGS ?= {flag}\noverride CFLAGS += -g\noverride STRICT = {flag}\nLDLIBS ?= {link}\n"
    cross = f"ifeq (1,2)\nCROSS_COMPILE ?= {name}-\nendif\nCROSS_COMPILE ?=\n"
    (package / "Makefile").write_text(f"{cross}OBJECTS = {name}.o\n{flags}")
    provenance = {"trace_sha256": trace, "workload": workload, "record": f"r{trace}", "candidates": 9 - len(trace)}
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


class Rebuilt(Rebuilding):
    """Stands for edgetune and its database: writes the package that tonight's generator and records would give."""

    def __init__(self, old: dict[str, str], new: dict[str, str]) -> None:
        self.old, self.new = old, new
        self.lost = False
        self.without_records: list[str] = []

    def model_of(self, package: Path) -> Path | None:
        return None if self.lost else Path(json.loads((package / "MANIFEST.json").read_text())["model"]["sha256"])

    def lost_records(self, package: Path) -> list[str]:
        assert package.name == "package"
        return self.without_records

    def build(self, model: Path, schedules_of: Path | None, out: Path) -> None:
        tonight = self.old if schedules_of else self.new
        chosen = {**self.new, "trace": tonight.get("trace", "t"), "workload": model.name}
        write(out.parent, **chosen)
        (out.parent / "built" / "bench").unlink()
        (out.parent / "built").rmdir()


COSTS = {"-O1": 1.2, "-slow": 1.25, "generator": 1.1, "worse": 1.3, "other": 1.4}
"""What each change costs, times 100."""


def cost(folder: Path) -> float:
    """The cost of a built program: it depends on its text alone."""
    text = (folder / "built" / "bench").read_text()
    return 100.0 * math.prod(factor for word, factor in COSTS.items() if word in text)


def told(
    tmp_path: Path,
    changes: dict[str, str],
    *,
    lost: bool = False,
    without_records: Sequence[str] = (),
    versions: tuple[dict[str, str], dict[str, str]] = ({"TVM": "1"}, {"TVM": "2"}),
) -> Cause:
    """The cause of these changes."""
    write(tmp_path / "old")
    write(tmp_path / "new", **changes)
    rebuilding = Rebuilt({}, changes)
    rebuilding.lost, rebuilding.without_records = lost, [*without_records]
    case = SlowerPackage(tmp_path / "old", tmp_path / "new", tmp_path / "causes", rebuilding, versions)
    whole = ratio(1.2)
    found = Comparison(whole, {0: whole}, 1, True, 100.0, 120.0, "", (100.0,), (120.0,))

    def in_turns(folders: Sequence[Path]) -> list[Start]:
        return [Start(cost(folder), (cost(folder),)) for folder in folders]

    return cause_of(case, found, build, in_turns)


@pytest.mark.parametrize(
    ("changes", "factors", "said"),
    [
        ({"flag": "-O1"}, ("toolchain",), "toolchain: +20.0 %, the accepted C by tonight's compiler and flags (cflags"),
        ({"code": "generator"}, ("generator",), "generator: +10.0 %, other C for the accepted schedules of k (TVM 1 b"),
        ({"trace": "worse"}, ("search",), "search: +30.0 %, other schedules for k (rt became rworse, the best of "),
        ({"workload": "other"}, ("model",), "model: +40.0 %, k compute something else than in the accepted package"),
        ({"flag": "-O1", "trace": "worse"}, ("toolchain", "search"), "several: toolchain: +20.0 %, "),
        ({"flag": "-O2"}, (), "cause not found"),
        ({"link": "-slow"}, ("toolchain",), "toolchain: +25.0 %, the accepted C by tonight's compiler and flags"),
        ({}, (), "cause not found"),
    ],
)
def test_the_factor_that_carries_the_change_is_named(
    tmp_path: Path, changes: dict[str, str], factors: tuple[str, ...], said: str
) -> None:
    cause = told(tmp_path, changes)
    assert (cause.factors, cause.sentence[: len(said)]) == (factors, said)
    assert bool(cause.diff) == bool(factors and factors != ("toolchain",))
    manifest = json.loads((tmp_path / "old" / "package" / "MANIFEST.json").read_text())
    assert manifest["target"]["compiler"]["cflags"] == ["-O3"]


def test_without_the_accepted_model_generator_and_search_count_to_the_model_and_that_is_said(tmp_path: Path) -> None:
    cause = told(tmp_path, {"workload": "other", "code": "generator"}, lost=True)
    assert cause.factors == ("model",)
    assert "the accepted model is lost, so generator and search count to it" in cause.sentence


def test_flags_go_into_a_makefile_that_knows_its_own_files(tmp_path: Path) -> None:
    """Also where tonight's package has another name, or other files."""
    cause = told(tmp_path, {"flag": "-O1", "name": "second", "link": "-static"})
    assert cause.factors == ("toolchain",)
    makefile = (tmp_path / "causes" / "toolchain" / "package" / "Makefile").read_text()
    assert makefile == (
        "ifeq (1,2)\nCROSS_COMPILE ?= second-\nendif\nCROSS_COMPILE ?=\nOBJECTS = m.o\nCFLAGS ?= -O1\n"
        "override CFLAGS += -g\noverride STRICT = -O1\nLDLIBS ?= -static\n"
    )


def test_lost_records_are_no_change_of_the_generator_and_that_is_said(tmp_path: Path) -> None:
    cause = told(tmp_path, {"trace": "worse"}, without_records=["k"], versions=({"TVM": "1"}, {"TVM": "1"}))
    assert cause.factors == ("search",)
    assert cause.sentence.startswith("search: +30.0 %, other schedules for k (")
    assert "; the database has no record any more of the accepted package's k; slower layers" in cause.sentence


def test_with_lost_records_another_generator_counts_to_the_search_and_that_is_said(tmp_path: Path) -> None:
    cause = told(tmp_path, {"trace": "worse", "code": "generator"}, without_records=["k"])
    assert cause.factors == ("search",)
    assert "the accepted package's k, so the generator counts to the search" in cause.sentence


def test_a_board_that_is_slower_than_in_its_own_past_is_told_with_the_fact_that_moved() -> None:
    first = {"package": "p", "new": 100.0, "unit": "ns", "board": {"kernel": "6.1", "governor": "performance"}}
    later = {"accepted": {"package": "p"}, "package": "", "old": 102.0, "new": 90.0, "unit": "ns"}
    other = {"package": "q", "new": 10.0, "unit": "ns"}
    past = past_of([other, first, {**later, "board": first["board"]}], "p", "ns", {})
    assert past.costs == [100.0, 102.0]
    facts = {"kernel": "6.12", "governor": "performance"}
    assert change_of(past, 104.0, facts, None, counts=False) == ""
    note = change_of(past, 111.1, facts, None, counts=False)
    assert note == "board: the accepted program takes +10.0 % against its own past (kernel 6.1 became 6.12)"
    assert "no known fact" in change_of(past, 111.1, {"governor": "performance"}, None, counts=False)
    assert change_of(past_of([], "p", "ns", {}), 100.0, facts, None, counts=False) == ""


def test_accepted_schedules_are_found_whatever_version_wrote_their_provenance(tmp_path: Path) -> None:
    measured = record()
    write(tmp_path / "old")
    package = tmp_path / "old" / "package"
    manifest = json.loads((package / "MANIFEST.json").read_text())
    found = {"workload": measured.workload, "trace_sha256": hashlib.sha256(measured.trace.encode()).hexdigest()}
    manifest["kernels"][0]["provenance"] |= {**found, "origin": "record", "of an older version": 1}
    (package / "MANIFEST.json").write_text(json.dumps(manifest))
    with RecordStore.open(tmp_path / "r.db") as store:
        store.add(measured)
    (choice,) = schedules_in(package, tmp_path / "r.db").values()
    assert choice is not None
    assert choice.trace == measured.trace


@pytest.mark.parametrize(("trace_sha256", "lost"), [("0" * 64, ["k"]), (None, [])])
def test_a_measured_schedule_without_record_is_lost_and_a_default_one_is_not(
    tmp_path: Path, trace_sha256: str | None, lost: list[str]
) -> None:
    write(tmp_path / "old")
    package = tmp_path / "old" / "package"
    manifest = json.loads((package / "MANIFEST.json").read_text())
    manifest["kernels"][0]["provenance"] |= {"trace_sha256": trace_sha256, "origin": "record"}
    (package / "MANIFEST.json").write_text(json.dumps(manifest))
    RecordStore.open(tmp_path / "r.db").close()
    settings = cast("Settings", SimpleNamespace(db=tmp_path / "r.db"))
    assert Rebuilding(settings, tmp_path, lambda _: None).lost_records(package) == lost


def test_of_a_loop_all_kernels_are_compared(tmp_path: Path) -> None:
    for name in ("old", "new"):
        package_sample.emit(tmp_path / name, measure=False)
        manifest = json.loads((tmp_path / name / "MANIFEST.json").read_text(encoding="utf-8"))
        calls = [{"kernel": k["name"], "label": k["name"], "macs": 1, "times": 3} for k in manifest["kernels"]]
        manifest["layers"][0] |= {"kernel": "", "steps": 3, "calls": calls}
        (tmp_path / name / "MANIFEST.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert diff(tmp_path / "old", tmp_path / "new", 0) == ""
    kernels = tmp_path / "new/src/tiny_kernels.c"
    text = kernels.read_text(encoding="utf-8")
    kernels.write_text(text.replace("out[i] = a[i] + b[i];", "out[i] = b[i] + a[i];"), encoding="utf-8")
    lines = [line for line in diff(tmp_path / "old", tmp_path / "new", 0).splitlines() if line[:1] in "+-"][2:]
    assert [line.split() for line in lines] == [
        ["-", "out[i]", "=", "a[i]", "+", "b[i];"],
        ["+", "out[i]", "=", "b[i]", "+", "a[i];"],
    ]
