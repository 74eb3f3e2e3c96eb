"""Packages for several threads: the pool under compilers, sanitizers and emulators, with and without pthreads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgetune.package.golden import GoldenCases
from edgetune.package.rendering import render
from edgetune.verify.verify import verify
from tests import package_sample as sample
from tests import threads_sample
from tests.package.test_build import WARNINGS, last, make

NOT_OURS = re.compile(r"^(?!tiny__|tiny_)\w+$")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "package"
    threads_sample.emit(folder)
    return folder


def copy_of(package: Path, place: Path) -> Path:
    return Path(shutil.copytree(package, place / "package"))


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_no_warning_and_the_same_bits_on_any_number_of_threads(tiny: Path, tmp_path: Path, compiler: str) -> None:
    folder = copy_of(tiny, tmp_path)
    told = make(folder, f"CC={compiler}", f"WARNINGS={WARNINGS}", "selftest", "example")
    assert last(told) == "PASS"
    assert "threads: up to 3, 6 loops shared" in told
    subprocess.run(["build/tiny_example"], cwd=folder, capture_output=True, check=True)
    assert json.loads(last(make(folder, f"CC={compiler}", "bench", "BENCH_ARGS=12 0.01")))["threads"] == 3
    assert json.loads(last(make(folder, f"CC={compiler}", "bench", "BENCH_ARGS=12 0.01 2")))["threads"] == 2


@pytest.mark.long
@pytest.mark.parametrize(("compiler", "check"), [("gcc", "thread"), ("clang-19", "address,undefined")])
def test_sanitizers_find_nothing(tiny: Path, tmp_path: Path, compiler: str, check: str) -> None:
    folder = copy_of(tiny, tmp_path)
    flags = f"CFLAGS=-O1 -g1 -fsanitize={check} -fno-sanitize-recover=all"
    assert last(make(folder, f"CC={compiler}", flags, "selftest")) == "PASS"


@pytest.mark.long
def test_threads_that_wait_ask_for_weights_that_no_cache_keeps(tmp_path: Path) -> None:
    """The second call's, half of the second cache at most; at the last's end none.

    None either where all weights stay in the cache, or where no call is shared.
    """
    small = sample.generic_x86().model_copy(update={"l2_bytes": 48})
    threads_sample.emit(tmp_path / "package", target=small)
    run = (tmp_path / "package/src/tiny.c").read_text()
    layers = run.partition("switch (first)")[2].partition("\n}\n")[0]
    assert re.findall(r"\n        (tiny__\w+\()(?:s->pool, (.*)\);)?", layers) == [
        ("tiny__pool_ahead(", "tiny__w1, 24u"),
        ("tiny__k_scale_add(", ""),
        ("tiny__pool_ahead(", "NULL, 0u"),
        ("tiny__k_scale_add(", ""),
        ("tiny__k_add(", ""),
    ]
    assert last(make(tmp_path / "package", "CFLAGS=-O1 -g1 -fsanitize=thread", "selftest")) == "PASS"
    roomy = small.model_copy(update={"l2_bytes": 128})
    threads_sample.emit(tmp_path / "package", target=roomy)
    assert "pool_ahead" not in (tmp_path / "package/src/tiny.c").read_text()
    sample.emit(tmp_path / "alone", target=small)
    assert "pool" not in (tmp_path / "alone/src/tiny.c").read_text()


@pytest.mark.long
def test_threads_that_sleep_at_once_are_woken_for_every_loop(tiny: Path, tmp_path: Path) -> None:
    folder = copy_of(tiny, tmp_path)
    flags = "CFLAGS=-O1 -g1 -fsanitize=thread -DTINY_SPINS=0"
    assert last(make(folder, flags, "selftest")) == "PASS"
    assert json.loads(last(make(folder, flags, "bench", "BENCH_ARGS=1000 0.2")))["runs"] > 0


def test_an_executor_does_without_pthreads(tiny: Path, tmp_path: Path) -> None:
    folder = copy_of(tiny, tmp_path)
    assert last(make(folder, "PTHREAD=", "CFLAGS=-O1 -DTINY_NO_PTHREAD", f"WARNINGS={WARNINGS}", "selftest")) == "PASS"
    assert "pthread" not in _undefined(folder)


def test_only_pthread_is_left_undefined(tiny: Path, tmp_path: Path) -> None:
    folder = copy_of(tiny, tmp_path)
    make(folder, "lib")
    names = {name for name in _undefined(folder).split() if NOT_OURS.match(name)}
    assert names
    assert {name for name in names if not name.startswith(("pthread_", "mem", "__stack_chk"))} == {"U"}


def _undefined(folder: Path) -> str:
    done = subprocess.run(["nm", "-u", "build/libtiny.a"], cwd=folder, capture_output=True, text=True, check=True)
    return "\n".join(line for line in done.stdout.splitlines() if " U " in line)


@pytest.mark.long
@pytest.mark.parametrize("board", ["rpi4", "generic-armv7"])
def test_cross_built_packages_pass_under_the_emulator(tmp_path: Path, board: str) -> None:
    threads_sample.emit(tmp_path / "package", target=sample.arm(board))
    assert last(make(tmp_path / "package", f"WARNINGS={WARNINGS}", "selftest")) == "PASS"


_ONCE = r"""#include "idle_parallel.h"
#include <stdatomic.h>
static _Atomic int seen[4096];
static int order;
static void visit(const void *work, int32_t begin, int32_t end, int32_t worker)
{
    for (int32_t i = begin; i < end; i++)
        for (int k = worker == 1 ? 20000 : 0; k >= 0; k--) /* thread 1 is slow: others have to help it */
            if (k == 0)
                atomic_fetch_add(&seen[i], 1);
    (void)work;
}
static void call(void *user, idle_task_fn task, void *argument, int threads)
{
    (void)user;
    for (int n = order > 0 ? threads - 1 : 0; n >= 0; n--)
        task(argument, order == 2 ? threads - 1 - n : n);
}
static int wrong(struct idle__pool *pool)
{
    for (int loop = 0; loop < 300; loop++) {
        const int32_t count = 1 + loop * 7 % 200, ranges = loop % 3 == 0 ? 1 : 8;
        idle__pool_ahead(pool, seen, loop % 2 ? 1 + 50 * (uint32_t)loop : 0);
        idle__parallel_for(pool, visit, 0, count, ranges);
        for (int32_t i = 0; i < 4096; i++)
            if (atomic_exchange(&seen[i], 0) != (i < count))
                return 1;
    }
    return 0;
}
int main(void)
{
    static _Alignas(64) unsigned char memory[IDLE_POOL_BYTES];
    for (unsigned i = 0; i < sizeof memory; i++)
        memory[i] = 0xab;
    struct idle__pool *pool = idle__pool_init(memory);
    int faults = wrong(pool);
    for (order = 0; order < 3; order++) {
        idle__pool_hand_over(pool, call, 0, IDLE_THREADS);
        faults += wrong(pool);
    }
    for (int threads = 2; threads <= IDLE_THREADS; threads++) {
        faults += idle__pool_start(pool, threads) != 0 || wrong(pool);
    }
    idle__pool_stop(pool);
    return faults;
}
"""
_IDLE = """#include <stddef.h>
#include <stdint.h>
#define IDLE_THREADS 3
#define IDLE_POOL_BYTES 1024
typedef enum { IDLE_OK = 0, IDLE_ERR_THREADS = -9 } idle_status;
typedef void (*idle_task_fn)(void *argument, int n);
typedef void (*idle_executor_fn)(void *user, idle_task_fn task, void *argument, int threads);
"""


@pytest.mark.long
def test_every_iteration_runs_once_whoever_comes_to_help(tmp_path: Path) -> None:
    """On one thread, by executors that call task 0 alone, all backwards and all forwards, and on two and three."""
    for name in ("parallel.h", "parallel.c"):
        api = {"upper": "IDLE", "threads": 3}
        (tmp_path / f"idle_{name}").write_text(render(f"core/{name}.j2", p="idle", api=api, generator=""))
    (tmp_path / "idle.h").write_text(_IDLE)
    (tmp_path / "main.c").write_text(_ONCE)
    command = [
        "gcc",
        "-std=gnu11",
        "-O1",
        "-g1",
        "-fsanitize=thread",
        "main.c",
        "idle_parallel.c",
        "-pthread",
        "-o",
        "once",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./once"], cwd=tmp_path, check=True, timeout=300)


_GO = """#include "name.h"
int name_go(void);
int name_go(void)
{
    static _Alignas(64) unsigned char workspace[2][NAME_WORKSPACE_BYTES];
    static float x[32], y[2][32];
    name_ctx c[2];
    int good = 1;
    for (int i = 0; i < 2; i++)
        good &= name_init(&c[i], workspace[i], sizeof workspace[i]) == 0 && name_set_threads(&c[i], 3) == 0;
    for (int i = 0; i < 100; i++) {
        const name_inputs in = {x};
        const name_outputs out = {y[i & 1]};
        good &= name_run(&c[i & 1], &in, &out) == 0;
    }
    for (int i = 0; i < 2; i++)
        name_deinit(&c[i]);
    return good;
}
"""


@pytest.mark.long
def test_two_packages_with_pools_link_into_one_program(tmp_path: Path) -> None:
    for name in ("tiny", "other"):
        threads_sample.emit(tmp_path / name, name=name)
        make(tmp_path / name, "lib")
        (tmp_path / f"go_{name}.c").write_text(_GO.replace("NAME", name.upper()).replace("name", name))
    (tmp_path / "main.c").write_text(
        "int tiny_go(void);\nint other_go(void);\nint main(void) { return !(tiny_go() && other_go()); }\n"
    )
    sources = ["main.c", "go_tiny.c", "go_other.c", "-Itiny/include", "-Iother/include"]
    command = ["gcc", *sources, "tiny/lib/libtiny.a", "other/lib/libother.a", "-lm", "-pthread", "-o", "both"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./both"], cwd=tmp_path, check=True, timeout=60)


@pytest.mark.long
def test_cmake_links_the_threads(tiny: Path, tmp_path: Path) -> None:
    folder = copy_of(tiny, tmp_path)
    for command in (["cmake", "-B", "made"], ["cmake", "--build", "made"], ["ctest", "--test-dir", "made"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.mark.long
def test_fresh_inputs_are_verified_on_all_threads(tiny: Path) -> None:
    report = verify(tiny, fresh=GoldenCases(sample.goldens(sample.program()), "numpy"))
    assert report.to_json()


def test_what_a_package_tells_of_its_threads(tiny: Path) -> None:
    manifest = json.loads((tiny / "MANIFEST.json").read_text())
    assert manifest["threads"] == 3
    assert [kernel["threads"] for kernel in manifest["kernels"]] == [3, 1]
    assert "#define TINY_THREADS 3" in (tiny / "include/tiny.h").read_text()
    assert "up to 3 threads" in (tiny / "README.md").read_text()
    report = (tiny / "REPORT.md").read_text()
    assert "| threads |" in report
    stack = 2 * manifest["memory"]["call_stack_bytes"]  # of the two threads beside the caller's
    assert f"| stacks of the worker threads, at most: 2 times the stack of a call | {stack:,} |" in report
