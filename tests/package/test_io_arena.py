"""Packages whose inputs and outputs lie in the arena: their text, their self-tests, and what these notice."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edgetune.graph.memory.plan import MemoryPlan, plan
from edgetune.package.golden import GoldenCases
from edgetune.package.manifest import read_manifest
from edgetune.package.provenance import KernelProvenance
from edgetune.verify.verify import verify
from tests import package_sample as sample
from tests import threads_sample
from tests.package.test_build import WARNINGS, last, make

GOLDEN = ("include/tiny.h", "src/tiny.c", "examples/main.c", "README.md", "REPORT.md")
EMITTERS: dict[str, Callable[..., Any]] = {
    "tiny": sample.emit,
    "keeping": sample.emit_keeping,
    "threads": threads_sample.emit,
}

DEVICE = """
    #include "tiny.h"
    #include <string.h>
    static tiny_ctx ctx;
    static _Alignas(TINY_WORKSPACE_ALIGN) unsigned char workspace[TINY_WORKSPACE_BYTES];
    static unsigned char *const channel = workspace + TINY_INPUT_X_OFFSET; /* known to the linker, as DMA wants it */

    int main(void)
    {
        float first[TINY_OUTPUT_Y_ELEMENTS];

        if (tiny_input_x(&ctx) != NULL || tiny_output_y(&ctx) != NULL || tiny_input_x(NULL) != NULL)
            return 1;
        if (tiny_run(NULL) != TINY_ERR_NULL || tiny_run(&ctx) != TINY_ERR_NOT_READY)
            return 2;
        if (tiny_init(&ctx, workspace, sizeof workspace) != TINY_OK || (unsigned char *)tiny_input_x(&ctx) != channel)
            return 3;
        for (int again = 0; again < 2; again++) {
            for (unsigned i = 0; i < TINY_INPUT_X_ELEMENTS; i++)
                ((float *)(void *)channel)[i] = (float)i;
            if (tiny_run(&ctx) != TINY_OK)
                return 4;
            if (again && memcmp(first, tiny_output_y(&ctx), sizeof first) != 0)
                return 5;
            memcpy(first, tiny_output_y(&ctx), sizeof first);
        }
        tiny_deinit(&ctx);
        return tiny_input_x(&ctx) == NULL && first[1] != first[2] ? 0 : 6;
    }
"""


def test_the_text_of_a_package(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    sample.emit(tmp_path / "p", measure=False, io="arena")
    for name in GOLDEN:
        golden(f"package/io_arena/{name}", (tmp_path / "p" / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_a_program_writes_and_reads_at_addresses_in_its_workspace(tmp_path: Path, compiler: str) -> None:
    sample.emit(tmp_path / "p", measure=False, io="arena")
    make(tmp_path / "p", "lib", f"CC={compiler}")
    (tmp_path / "main.c").write_text(DEVICE, encoding="ascii")
    command = [compiler, "-std=gnu11", "-DTINY_NO_ATTRIBUTES", "-Ip/include", "main.c", "p/lib/libtiny.a", "-lm"]
    subprocess.run([*command, "-o", "app"], cwd=tmp_path, check=True)
    assert subprocess.run([str(tmp_path / "app")], check=False).returncode == 0


@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_header_compiles_alone(tmp_path: Path, language: str) -> None:
    sample.emit_keeping(tmp_path / "p", measure=False, io="arena")
    standard = {"c": "-std=c11", "c++": "-std=c++17"}[language]
    command = ["gcc", "-fsyntax-only", "-x", language, standard, "-Wall", "-Wextra", "-pedantic", "-Werror"]
    subprocess.run([*command, "p/include/keeping.h"], cwd=tmp_path, check=True)


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("kind", EMITTERS)
def test_no_warning_in_library_tests_and_example(tmp_path: Path, kind: str, compiler: str) -> None:
    folder = tmp_path / "p"
    EMITTERS[kind](folder, measure=False, io="arena")
    prefix = read_manifest(folder)["prefix"]
    told = make(folder, f"CC={compiler}", f"WARNINGS={WARNINGS}", "selftest", "example")
    assert last(told) == "PASS"
    subprocess.run([f"build/{prefix}_example"], cwd=folder, capture_output=True, check=True)
    assert json.loads(last(make(folder, f"CC={compiler}", f"WARNINGS={WARNINGS}", "bench", "BENCH_ARGS=12 0.01")))[
        "runs"
    ]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "weights"), [("tiny", "external"), ("keeping", "text"), ("threads", "binary")])
def test_sanitizers_find_nothing(tmp_path: Path, kind: str, weights: str) -> None:
    EMITTERS[kind](tmp_path / "p", measure=False, weights=weights, io="arena")
    flags = "CFLAGS=-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    assert last(make(tmp_path / "p", flags, "selftest")) == "PASS"


@pytest.mark.long
def test_without_its_profiler_a_package_passes_too(tmp_path: Path) -> None:
    sample.emit(tmp_path / "p", measure=False, io="arena")
    assert last(make(tmp_path / "p", "CPPFLAGS=-DTINY_NO_PROFILER", f"WARNINGS={WARNINGS}", "selftest")) == "PASS"


@pytest.mark.long
def test_all_types_of_elements_have_addresses_and_no_byte_of_one_is_one_of_another(tmp_path: Path) -> None:
    """The inputs lie apart; an output may lie over an input that was read before."""
    types = ("float16", "bool", "uint8", "int16", "float32", "int64", "float64")
    model, made, goldens = sample.copies([*((dtype, (3, 5)) for dtype in types), ("int8", (0, 4))])
    sample.emit_copies(tmp_path / "p", model.with_io("arena"), made, goldens)
    assert last(make(tmp_path / "p", f"WARNINGS={WARNINGS}", "selftest", "example")) == "PASS"
    manifest = read_manifest(tmp_path / "p")
    places = sorted((tensor["offset"], tensor["bytes"]) for tensor in manifest["inputs"] if tensor["bytes"])
    assert all(at + size <= after for (at, size), (after, _) in pairwise(places))
    assert {tensor["alignment"] for tensor in (*manifest["inputs"], *manifest["outputs"])} == {64}


def with_two_inputs_in_one_place(memory: MemoryPlan) -> MemoryPlan:
    return replace(memory, offsets={**memory.offsets, 2: memory.offsets[0]})


def with_an_output_over_the_other(memory: MemoryPlan) -> MemoryPlan:
    return replace(memory, offsets={**memory.offsets, 3: memory.offsets[1]})


@pytest.mark.parametrize("wrong", [with_two_inputs_in_one_place, with_an_output_over_the_other])
def test_the_self_test_sees_a_plan_that_is_wrong(tmp_path: Path, wrong: Callable[[MemoryPlan], MemoryPlan]) -> None:
    model, made, goldens = sample.copies([("int16", (40,)), ("uint16", (41,))])
    model = model.with_io("arena")
    origins = [KernelProvenance("33" * 32, "fixed")] * len(made)
    whole = sample.compiled(model, made, origins, plan=wrong(plan(model, {})))
    sample.write(whole, goldens, tmp_path / "p", measure=False)
    done = subprocess.run(["make", "-s", "selftest"], cwd=tmp_path / "p", capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "FAIL: an output is too far from its golden vector" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("kind", EMITTERS)
def test_new_inputs_are_verified(tmp_path: Path, kind: str) -> None:
    """By the driver, which writes to the addresses and reads there."""
    folder = tmp_path / "p"
    EMITTERS[kind](folder, measure=False, io="arena")
    model, goldens = sample.keeping() if kind == "keeping" else (sample.program(), sample.goldens(sample.program(), 5))
    report = verify(folder, fresh=GoldenCases(goldens, "numpy", {}))
    assert (report.passed, report.fresh_cases) == (True, 5), model.name


def test_the_fingerprint_tells_packages_apart_and_changes_with_a_place(tmp_path: Path) -> None:
    """The compiler refuses the source of one package with the header of another: so it must see a moved tensor."""
    model = sample.program().with_io("arena")
    whole = sample.compiled(model, sample.sources("tiny"), sample.provenance())
    moved = {**whole.plan.offsets, 5: whole.plan.arena_bytes - 128}
    sample.emit(tmp_path / "caller", measure=False)
    sample.write(whole, sample.goldens(model), tmp_path / "arena", measure=False)
    other = replace(whole, plan=replace(whole.plan, offsets=moved))
    sample.write(other, sample.goldens(model), tmp_path / "moved", measure=False)
    assert moved[5] != whole.plan.offsets[5]
    assert len({read_manifest(tmp_path / name)["abi"] for name in ("caller", "arena", "moved")}) == 3
    shutil.copy(tmp_path / "caller/include/tiny.h", tmp_path / "arena/include/tiny.h")
    done = subprocess.run(["make", "-s", "lib"], cwd=tmp_path / "arena", capture_output=True, text=True, check=False)
    assert "tiny.h and tiny.c are of different packages" in done.stderr


def test_the_report_counts_inputs_and_outputs_once(tmp_path: Path) -> None:
    sizes = {}
    for io in ("caller", "arena"):
        sample.emit(tmp_path / io, io=io)
        memory = read_manifest(tmp_path / io)["memory"]
        report = (tmp_path / io / "REPORT.md").read_text(encoding="utf-8")
        stated = re.search(r"^\| \*\*RAM in all\*\*.*\| ([\d,]+) \|$", report, re.MULTILINE)
        assert stated is not None
        beside = memory["io_bytes"] if io == "caller" else 0
        sizes[io] = memory["workspace_bytes"] + beside
        assert int(stated[1].replace(",", "")) == sizes[io] + 64 + memory["call_stack_bytes"]
    assert sizes["arena"] < sizes["caller"]
