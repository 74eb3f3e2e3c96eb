"""Packages with a workspace in each of several memory regions: their text, their self-tests, and what these notice."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetune.errors import UsageError
from edgetune.graph.memory.regions import RegionSize, plan_in_regions
from edgetune.graph.program import Program
from edgetune.package.golden import Golden, GoldenCases
from edgetune.package.inputs import CompiledModel, Device
from edgetune.package.manifest import read_manifest
from edgetune.pipeline.link import plan_memory
from edgetune.target.memory_map import GUARD_BYTES, MemoryMap
from edgetune.target.preferences import Io
from edgetune.target.target import Target
from edgetune.verify.verify import verify
from tests import package_sample as sample
from tests.package.test_build import WARNINGS, last, make

GOLDEN = ("include/tiny.h", "src/tiny.c", "examples/main.c", "test/tiny_selftest.c", "README.md", "REPORT.md")
FAST, SLOW = RegionSize("dtcm", 128), RegionSize("sram", 4096)

DEVICE = """
    #include "tiny.h"
    #include <string.h>
    static tiny_ctx ctx;
    static _Alignas(64) unsigned char fast[TINY_WORKSPACE_DTCM_BYTES + 1], slow[TINY_WORKSPACE_SRAM_BYTES];
    static tiny_workspaces both = {.dtcm = fast, .dtcm_bytes = sizeof fast, .sram = slow, .sram_bytes = sizeof slow};

    static tiny_status changed(void *in_fast, size_t fast_bytes, void *in_slow, size_t slow_bytes)
    {
        const tiny_workspaces one = {in_fast, fast_bytes, in_slow, slow_bytes};
        return tiny_init(&ctx, &one);
    }

    int main(void)
    {
        const size_t a = TINY_WORKSPACE_DTCM_BYTES, b = TINY_WORKSPACE_SRAM_BYTES;
        float x[TINY_INPUT_X_ELEMENTS] = {1.0f, 2.0f}, y[TINY_OUTPUT_Y_ELEMENTS];
        tiny_inputs in = {x};
        tiny_outputs out = {y};

        if (changed(NULL, a, slow, b) != TINY_ERR_NULL || changed(fast, a, NULL, b) != TINY_ERR_NULL)
            return 1;
        if (changed(fast, a - 1, slow, b) != TINY_ERR_WORKSPACE_SIZE)
            return 2;
        if (changed(fast, a, slow, b - 1) != TINY_ERR_WORKSPACE_SIZE)
            return 3;
        if (changed(fast + 1, a, slow, b) != TINY_ERR_WORKSPACE_ALIGN)
            return 4;
        if (changed(slow, a, slow, b) != TINY_ERR_WORKSPACE_SIZE || tiny_run(&ctx, &in, &out) != TINY_ERR_NOT_READY)
            return 5;
        if (tiny_init(&ctx, &both) != TINY_OK || tiny_run(&ctx, &in, &out) != TINY_OK || !(y[1] > y[0] || y[1] < y[0]))
            return 6;
        in.x = (const float *)(const void *)slow;
        if (tiny_run(&ctx, &in, &out) != TINY_ERR_TENSOR_OVERLAP)
            return 7;
        in.x = x;
        out.y = (float *)(void *)fast;
        if (tiny_run(&ctx, &in, &out) != TINY_ERR_TENSOR_OVERLAP)
            return 8;
        return tiny_workspace_dtcm_size() == a && tiny_workspace_sram_size() == b ? 0 : 9;
    }
"""


def target(*regions: RegionSize) -> Target:
    """A PC whose memory is said to be in regions: programs there take the sections for usual variables."""
    pieces = [
        {"name": one.name, "origin": 0x20000000 + number * 0x100000, "bytes": one.nbytes + 2 * GUARD_BYTES}
        for number, one in enumerate(regions)
    ]
    space = {"flash": {"origin": 0, "bytes": 1 << 20}, "ram": regions[-1].name, "regions": pieces}
    return sample.generic_x86().model_copy(update={"memory_map": MemoryMap.model_validate(space)})


def compiled(program: Program, made: list[Any], *regions: RegionSize, **more: Any) -> CompiledModel:
    scratch = {number: source.scratch_bytes for number, source in enumerate(made)}
    return sample.compiled(
        program, made, sample.provenance(), plan=plan_in_regions(program, scratch, regions, ({},)), **more
    )


def emit(
    out: Path, *, io: Io = "caller", regions: tuple[RegionSize, ...] = (FAST, SLOW), **options: Any
) -> list[Golden]:
    """The hand-made program, with scratch; returns its cases."""
    program = sample.program().with_io(io)
    goldens = sample.goldens(program)
    whole = compiled(program, sample.sources("tiny", scratch=64), *regions)
    device = Device(target(*regions), regions=regions)
    sample.write(whole, goldens, out, device=device, **{"measure": False, **options})
    return goldens


def test_the_text_of_a_package(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    emit(tmp_path / "p")
    for name in GOLDEN:
        golden(f"package/regions/{name}", (tmp_path / "p" / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_each_workspace_is_checked(tmp_path: Path, compiler: str) -> None:
    emit(tmp_path / "p")
    make(tmp_path / "p", "lib", f"CC={compiler}")
    (tmp_path / "main.c").write_text(DEVICE, encoding="ascii")
    command = [compiler, "-std=gnu11", "-DTINY_NO_ATTRIBUTES", "-Ip/include", "main.c", "p/lib/libtiny.a", "-lm"]
    subprocess.run([*command, "-o", "app"], cwd=tmp_path, check=True)
    assert subprocess.run([str(tmp_path / "app")], check=False).returncode == 0


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("io", ["caller", "arena"])
def test_the_header_compiles_alone(tmp_path: Path, language: str, io: Io) -> None:
    emit(tmp_path / "p", io=io)
    standard = {"c": "-std=c11", "c++": "-std=c++17"}[language]
    command = ["gcc", "-fsyntax-only", "-x", language, standard, "-Wall", "-Wextra", "-pedantic", "-Werror"]
    subprocess.run([*command, "p/include/tiny.h"], cwd=tmp_path, check=True)


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("io", ["caller", "arena"])
@pytest.mark.parametrize("weights", ["text", "external"])
def test_no_warning_in_library_tests_and_example(tmp_path: Path, compiler: str, io: Io, weights: str) -> None:
    folder = tmp_path / "p"
    emit(folder, io=io, weights=weights)
    words = [f"CC={compiler}", f"WARNINGS={WARNINGS}"]
    assert last(make(folder, *words, "selftest", "example")) == "PASS"
    subprocess.run(["build/tiny_example"], cwd=folder, capture_output=True, check=True)
    assert json.loads(last(make(folder, *words, "bench", "BENCH_ARGS=12 0.01")))["runs"]


@pytest.mark.long
@pytest.mark.parametrize("io", ["caller", "arena"])
def test_sanitizers_find_nothing(tmp_path: Path, io: Io) -> None:
    emit(tmp_path / "p", io=io)
    flags = "CFLAGS=-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    assert last(make(tmp_path / "p", flags, "selftest")) == "PASS"


@pytest.mark.long
@pytest.mark.parametrize("io", ["caller", "arena"])
def test_a_package_that_keeps_a_state_passes(tmp_path: Path, io: Io) -> None:
    program, goldens = sample.keeping()
    regions = (RegionSize("dtcm", 128), SLOW)
    whole = compiled(program.with_io(io), sample.sources("keeping"), *regions)
    device = Device(target(*regions), regions=regions)
    sample.write(whole, goldens, tmp_path / "p", device=device, name="keeping", measure=False)
    assert last(make(tmp_path / "p", f"WARNINGS={WARNINGS}", "selftest", "example")) == "PASS"


@pytest.mark.parametrize("io", ["caller", "arena"])
def test_new_inputs_are_verified(tmp_path: Path, io: Io) -> None:
    """By the driver, which has a workspace in each region."""
    emit(tmp_path / "p", io=io)
    report = verify(tmp_path / "p", fresh=GoldenCases(sample.goldens(sample.program(), 5), "numpy", {}))
    assert (report.passed, report.fresh_cases) == (True, 5)


def test_the_self_test_sees_a_plan_that_is_wrong(tmp_path: Path) -> None:
    """A tensor behind the end of the workspace in its region."""
    program = sample.program()
    whole = compiled(program, sample.sources("tiny"), FAST, SLOW)
    last_one = max(whole.plan.offsets)
    end = whole.plan.arenas[whole.plan.regions[last_one]].nbytes
    wrong = replace(whole.plan, offsets={**whole.plan.offsets, last_one: end})
    device = Device(target(FAST, SLOW), regions=(FAST, SLOW))
    sample.write(replace(whole, plan=wrong), sample.goldens(program), tmp_path / "p", device=device, measure=False)
    done = subprocess.run(["make", "-s", "selftest"], cwd=tmp_path / "p", capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert re.search(r"^FAIL: something was written beside the workspace in (dtcm|sram)", done.stdout, re.MULTILINE)


def test_threads_in_regions_are_refused() -> None:
    device = Device(target(FAST, SLOW), threads=2, regions=(FAST, SLOW))
    with pytest.raises(UsageError, match=r"names regions of RAM, in which a package runs on one thread: build it with"):
        plan_memory(sample.program(), {}, {}, device)


def test_the_fingerprint_changes_with_a_region(tmp_path: Path) -> None:
    """A program with the header of one package cannot be linked with the source of another."""
    program = sample.program()
    for name, regions in (("a", (FAST, SLOW)), ("b", (SLOW,)), ("c", (FAST, RegionSize("axi", 4096)))):
        whole = compiled(program, sample.sources("tiny"), *regions)
        device = Device(target(*regions), regions=regions)
        sample.write(whole, sample.goldens(program), tmp_path / name, device=device, measure=False)
    assert len({read_manifest(tmp_path / name)["abi"] for name in "abc"}) == 3


def test_one_region_is_one_workspace(tmp_path: Path) -> None:
    """In the section of its region, if that is not the one of variables."""
    emit(tmp_path / "p", regions=(RegionSize("dtcm", 4096), SLOW))
    header = (tmp_path / "p/include/tiny.h").read_text(encoding="ascii")
    assert "tiny_init(tiny_ctx *ctx, void *workspace, size_t bytes)" in header
    assert "sram" not in header
    memory = read_manifest(tmp_path / "p")["memory"]
    size = memory["workspace_bytes"]
    section = ".bss.tiny_workspace_dtcm"
    assert memory["workspaces"] == [{"region": "dtcm", "field": "", "bytes": size, "section": section}]
    assert section in (tmp_path / "p/examples/main.c").read_text(encoding="ascii")
    assert last(make(tmp_path / "p", f"WARNINGS={WARNINGS}", "selftest", "example")) == "PASS"


def test_the_manifest_says_where_layers_write(tmp_path: Path) -> None:
    emit(tmp_path / "p")
    manifest = read_manifest(tmp_path / "p")
    first, second = manifest["memory"]["workspaces"]
    assert (first["region"], second["region"]) == ("dtcm", "sram")
    assert first["bytes"] + second["bytes"] == manifest["memory"]["workspace_bytes"]
    written = [place.get("workspace", "") for layer in manifest["layers"] for place in layer["written"]]
    assert set(written) == {"dtcm", "sram", ""}
