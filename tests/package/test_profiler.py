"""The profiler of a package: a table of layers beside calls that test nothing, and a macro that leaves it out."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.graph.program import Program
from edgetune.package.calls import layer_labels
from tests import package_sample as sample
from tests import threads_sample
from tests.package.test_build import WARNINGS, last, make

LONG = "/model/encoder/layers.17" * 20


def labelled(*labels: str) -> Program:
    model = sample.program()
    return replace(model, calls=tuple(replace(c, label=t) for c, t in zip(model.calls, labels, strict=True)))


def emit(folder: Path, *labels: str) -> Path:
    model = labelled(*labels)
    made, cases, origins = sample.sources("tiny"), sample.goldens(model), sample.provenance()
    sample.write(sample.compiled(model, made, origins), cases, folder, measure=False)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("kind", ["alone", "threads"])
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_a_macro_takes_hooks_and_names_out_of_the_library(tmp_path: Path, compiler: str, kind: str) -> None:
    folder = tmp_path / "p"
    if kind == "threads":
        threads_sample.emit(folder)
    else:
        emit(folder, LONG, "second layer", "third layer")
    flags = ("-s", f"CC={compiler}", f"WARNINGS={WARNINGS}")
    assert last(make(folder, *flags, "selftest", "lib")) == "PASS"
    whole = (folder / "lib/libtiny.a").read_bytes()
    text = _text_bytes(folder)
    assert b"set_profiler" in whole
    without = (*flags, "CFLAGS=-O2 -DTINY_NO_PROFILER")
    assert last(make(folder, *without, "selftest", "lib")) == "PASS"
    assert '"layers": []}' in make(folder, *without, "bench", "BENCH_ARGS=3 0.01")
    small = (folder / "lib/libtiny.a").read_bytes()
    assert b"profile" not in small
    assert b"set_profiler" not in small
    assert b"second layer" not in small
    assert _text_bytes(folder) < text - (len(LONG) if kind == "alone" else 0)


def _text_bytes(folder: Path) -> int:
    done = subprocess.run(["size", "build/tiny.o"], cwd=folder, capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[1].split()[0])


def test_a_run_without_a_hook_tests_for_none_between_its_layers(tmp_path: Path) -> None:
    """The assembly of a run is its checks, then the calls one after the other."""
    folder = emit(tmp_path / "p", "a", "b", "c")
    subprocess.run(
        ["gcc", "-std=gnu11", "-O2", "-Iinclude", "-Isrc", "-S", "src/tiny.c", "-o", "tiny.s"], cwd=folder, check=True
    )
    run = (folder / "tiny.s").read_text().partition("\ntiny_run:")[2].partition(".cfi_endproc")[0]
    first, last_call = run.index("tiny__k_scale_add"), run.rindex("tiny__k_add")
    between = run[first:last_call]
    assert between.count("tiny__k_scale_add") == 2
    assert not re.findall(r"^\s+(?:cmp|test|j[a-z]+)\s", between, re.MULTILINE)
    assert (folder / "src/tiny.c").read_text().count("hook != NULL") == 1


def test_a_hook_may_remove_itself_within_a_run(tmp_path: Path) -> None:
    folder = emit(tmp_path / "p", "a", "b", "c")
    make(folder, "lib")
    (folder / "main.c").write_text(
        """
        #include "tiny.h"
        static tiny_ctx ctx;
        static _Alignas(64) unsigned char workspace[TINY_WORKSPACE_BYTES];
        static float x[TINY_INPUT_X_ELEMENTS], y[TINY_OUTPUT_Y_ELEMENTS];
        static unsigned seen;
        static void hook(void *user, unsigned layer, const char *name, int end)
        {
            seen += name[0] == (char)('a' + (int)layer) && name[1] == 0;
            if (end)
                tiny_set_profiler((tiny_ctx *)user, 0, 0);
        }
        int main(void)
        {
            const tiny_inputs i = { .x = x };
            const tiny_outputs o = { .y = y };
            if (tiny_init(&ctx, workspace, sizeof workspace) != TINY_OK)
                return 1;
            tiny_set_profiler(&ctx, hook, &ctx);
            for (int n = 0; n < 2; n++)
                if (tiny_run(&ctx, &i, &o) != TINY_OK)
                    return 2;
            return seen == 2 * TINY_LAYERS ? 0 : 3;
        }
        """,
        encoding="ascii",
    )
    subprocess.run(["gcc", "-Iinclude", "main.c", "lib/libtiny.a", "-lm", "-o", "app"], cwd=folder, check=True)
    assert subprocess.run([str(folder / "app")], check=False).returncode == 0


def test_an_instance_may_run_in_the_middle_of_a_run_of_another(tmp_path: Path) -> None:
    """Each has a workspace, so here every layer is interrupted; a self-test has one, and interrupts the first layer."""
    folder = emit(tmp_path / "p", "a", "b", "c")
    make(folder, "lib")
    (folder / "main.c").write_text(
        """
        #include <string.h>
        #include "tiny.h"
        static tiny_ctx one, other;
        static _Alignas(64) unsigned char workspaces[2][TINY_WORKSPACE_BYTES];
        static float x[2][TINY_INPUT_X_ELEMENTS], alone[2][TINY_OUTPUT_Y_ELEMENTS], y[2][TINY_OUTPUT_Y_ELEMENTS];
        static int failed;
        static int run(tiny_ctx *ctx, int number, float *into)
        {
            const tiny_inputs i = { .x = x[number] };
            const tiny_outputs o = { .y = into };
            return tiny_run(ctx, &i, &o) != TINY_OK;
        }
        static void hook(void *user, unsigned layer, const char *name, int end)
        {
            failed += run(&other, 1, y[1]) || memcmp(y[1], alone[1], sizeof y[1]);
        }
        int main(void)
        {
            for (int n = 0; n < TINY_INPUT_X_ELEMENTS; n++)
                x[0][n] = (float)n, x[1][n] = (float)-n;
            failed += tiny_init(&one, workspaces[0], TINY_WORKSPACE_BYTES) != TINY_OK;
            failed += tiny_init(&other, workspaces[1], TINY_WORKSPACE_BYTES) != TINY_OK;
            failed += run(&one, 0, alone[0]) + run(&one, 1, alone[1]);
            tiny_set_profiler(&one, hook, 0);
            failed += run(&one, 0, y[0]) || memcmp(y[0], alone[0], sizeof y[0]);
            return failed || !memcmp(alone[0], alone[1], sizeof alone[0]);
        }
        """,
        encoding="ascii",
    )
    subprocess.run(["gcc", "-Iinclude", "main.c", "lib/libtiny.a", "-lm", "-o", "app"], cwd=folder, check=True)
    assert subprocess.run([str(folder / "app")], check=False).returncode == 0


@given(st.lists(st.one_of(st.sampled_from(["relu", "relu #2", " relu", "", "*/"]), st.text()), min_size=3, max_size=3))
def test_labels_of_layers_differ_and_are_whole(texts: list[str]) -> None:
    labels = layer_labels(labelled(*texts))
    assert len(set(labels)) == len(labels)
    assert all(labels)
    for text, label in zip(texts, labels, strict=True):
        if text.isascii() and text.isalnum():
            assert re.fullmatch(re.escape(text) + r"( #\d+)?", label)


@pytest.mark.long
def test_long_names_are_whole_wherever_layers_are_named(tmp_path: Path) -> None:
    folder = emit(tmp_path / "p", LONG, LONG, "third")
    for file in ("src/tiny.c", "test/tiny_bench.c", "REPORT.md", "MANIFEST.json"):
        assert f"{LONG} #2" in (folder / file).read_text(encoding="utf-8").replace("\\#", "#").replace("\\_", "_"), file
    assert last(make(folder, f"WARNINGS={WARNINGS}", "selftest")) == "PASS"
    assert last(make(folder, f"WARNINGS={WARNINGS}", "bench", "BENCH_ARGS=3 0.01")).count(LONG) == 2
    shutil.rmtree(folder)


def test_without_the_profiler_the_header_has_none_either(tmp_path: Path) -> None:
    sample.emit(tmp_path / "p", measure=False)
    (tmp_path / "use.c").write_text(
        '#include "tiny.h"\nvoid f(tiny_ctx *c);\nvoid f(tiny_ctx *c) { tiny_set_profiler(c, 0, 0); }\n'
    )
    command = ["gcc", "-Werror=implicit-function-declaration", "-fsyntax-only", "-Ip/include", "use.c"]
    with_it = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    without = subprocess.run(
        [*command, "-DTINY_NO_PROFILER"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert with_it.returncode == 0, with_it.stderr
    assert "tiny_set_profiler" in without.stderr
    assert without.returncode != 0


def test_times_of_layers_are_without_the_clock(tmp_path: Path) -> None:
    """A clock on which nothing but reading it takes time: layers take none, and the package says what it took away."""
    folder = emit(tmp_path / "p", "a", "b", "c")
    (folder / "ticks.c").write_text(
        "#include <stdint.h>\nuint64_t ticks(void);\nuint64_t ticks(void) { static uint64_t t; return t += 125; }\n"
    )
    subprocess.run(["gcc", "-c", "ticks.c"], cwd=folder, check=True)
    printed = json.loads(
        last(make(folder, "CC=gcc -DTINY_NOW_NS=ticks", "LDLIBS=ticks.o -lm", "bench", "BENCH_ARGS=5 0.01"))
    )
    assert [layer["median_us"] for layer in printed["layers"]] == [0.0, 0.0, 0.0]
    assert [layer["min_us"] for layer in printed["layers"]] == [0.0, 0.0, 0.0]
    assert printed["clock_us"] == printed["median_us"] == 0.125
