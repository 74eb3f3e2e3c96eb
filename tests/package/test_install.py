"""Packages that are installed: found by pkg-config and by CMake, in their prefix or where it moved to."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from edgetune.target.tool_process import tool_environment
from tests import package_sample as sample
from tests import threads_sample
from tests.package.test_build import WARNINGS, last, make

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "tiny.h"

static tiny_ctx ctx;
static _Alignas(TINY_WORKSPACE_ALIGN) unsigned char workspace[TINY_WORKSPACE_BYTES];
static float x[TINY_INPUT_X_DIM0][TINY_INPUT_X_DIM1], y[TINY_OUTPUT_Y_ELEMENTS];

int main(int argc, char **argv)
{
    const tiny_inputs inputs = { .x = &x[0][0] };
    const tiny_outputs outputs = { .y = y };

    (void)argc;
    (void)argv;
    if (tiny_init(&ctx, workspace, sizeof workspace) != TINY_OK)
        return 1;
    WEIGHTS
    THREADS
    if (tiny_run(&ctx, &inputs, &outputs) != TINY_OK)
        return 2;
    tiny_deinit(&ctx);
    printf("y[0] = %g\\n", (double)y[0]);
    return 0;
}
"""
BIND = """
    static _Alignas(TINY_WEIGHTS_ALIGN) unsigned char weights[TINY_WEIGHTS_BYTES];
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL || fread(weights, 1, sizeof weights, file) != sizeof weights)
        return 3;
    fclose(file);
    if (tiny_bind_weights(&ctx, weights, sizeof weights) != TINY_OK)
        return 4;
"""
START = "if (tiny_set_threads(&ctx, TINY_THREADS) != TINY_OK) return 5;"
CMAKE = """
cmake_minimum_required(VERSION 3.13)
project(app LANGUAGES C)
find_package(tiny 1.0 REQUIRED)
add_executable(app main.c)
set_target_properties(app PROPERTIES C_STANDARD 11)
target_link_libraries(app PRIVATE tiny::tiny)
"""
KINDS = ("text", "binary", "external", "threads")


def package(folder: Path, kind: str) -> Path:
    """A package, and beside it a program of its user."""
    if kind == "threads":
        threads_sample.emit(folder / "package")
    else:
        sample.emit(folder / "package", weights=kind, scratch=64, measure=False)
    main = MAIN.replace("WEIGHTS\n", BIND if kind == "external" else "\n")
    (folder / "main.c").write_text(main.replace("THREADS\n", f"{START}\n" if kind == "threads" else "\n"), "ascii")
    return folder / "package"


def answer(*words: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("kind", KINDS)
def test_pkg_config_finds_what_make_installs_also_where_it_moved(tmp_path: Path, kind: str) -> None:
    folder = package(tmp_path, kind)
    make(folder, "install", "PREFIX=/opt/of a vendor", f"DESTDIR={tmp_path}/stage", f"WARNINGS={WARNINGS}")
    staged = tmp_path / "stage/opt/of a vendor"
    assert (staged / "include/tiny.h").read_bytes() == (folder / "include/tiny.h").read_bytes()
    assert "prefix=/opt/of a vendor\n" in (staged / "lib/pkgconfig/tiny.pc").read_text(encoding="ascii")
    moved = tmp_path / "moved"
    shutil.move(staged, moved)
    where = {"PKG_CONFIG_PATH": str(moved / "lib/pkgconfig")}
    flags = answer("pkg-config", "--define-prefix", "--cflags", "--libs", "tiny", **where).split()
    assert ("-pthread" in flags) is (kind == "threads")
    answer("gcc", "-std=gnu11", "-Wall", "-Werror", tmp_path / "main.c", *flags, "-o", tmp_path / "app")
    bound = (
        [answer("pkg-config", "--define-prefix", "--variable=weights", "tiny", **where)] if kind == "external" else []
    )
    assert answer(tmp_path / "app", *bound).startswith("y[0] = ")
    assert answer("pkg-config", "--modversion", "tiny", **where) == "1.0.0"


def test_folders_of_its_own_are_kept(tmp_path: Path) -> None:
    folder = package(tmp_path, "text")
    make(
        folder, "install", f"PREFIX={tmp_path}/usr", f"LIBDIR={tmp_path}/usr/lib/arm", f"INCLUDEDIR={tmp_path}/headers"
    )
    flags = answer("pkg-config", "--cflags", "--libs", "tiny", PKG_CONFIG_PATH=f"{tmp_path}/usr/lib/arm/pkgconfig")
    assert flags.split() == [f"-I{tmp_path}/headers", f"-L{tmp_path}/usr/lib/arm", "-ltiny", "-lm"]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_cmake_finds_what_cmake_installs(tmp_path: Path, kind: str) -> None:
    folder, prefix = package(tmp_path, kind), tmp_path / "usr local"
    answer("cmake", "-S", folder, "-B", tmp_path / "b")
    answer("cmake", "--build", tmp_path / "b", "--target", "tiny", "tiny_selftest", "tiny_bench", "tiny_example")
    answer("cmake", "--install", tmp_path / "b", "--prefix", prefix)
    shutil.rmtree(folder)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE, encoding="ascii")
    answer("cmake", "-S", tmp_path, "-B", tmp_path / "app", f"-DCMAKE_PREFIX_PATH={prefix}")
    answer("cmake", "--build", tmp_path / "app")
    bound = [prefix / "share/tiny/tiny_weights.bin"] if kind == "external" else []
    assert answer(tmp_path / "app/app", *bound).startswith("y[0] = ")
    where = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    assert answer("pkg-config", "--variable=prefix", "tiny", **where) == str(prefix)
    assert "-ltiny" in answer("pkg-config", "--libs", "tiny", **where)


@pytest.mark.long
def test_cmake_takes_folders_that_are_absolute(tmp_path: Path) -> None:
    folder = package(tmp_path, "external")
    absolute = [f"-DCMAKE_INSTALL_{name}={tmp_path}/{name}" for name in ("INCLUDEDIR", "LIBDIR", "DATADIR")]
    answer("cmake", "-S", folder, "-B", tmp_path / "b", *absolute)
    answer("cmake", "--build", tmp_path / "b", "--target", "tiny")
    answer("cmake", "--install", tmp_path / "b", "--prefix", tmp_path / "usr")
    where = {"PKG_CONFIG_PATH": f"{tmp_path}/LIBDIR/pkgconfig"}
    flags = answer("pkg-config", "--cflags", "--libs", "tiny", **where)
    assert flags.split() == [f"-I{tmp_path}/INCLUDEDIR", f"-L{tmp_path}/LIBDIR", "-ltiny", "-lm"]
    weights = Path(answer("pkg-config", "--variable=weights", "tiny", **where))
    assert weights.read_bytes() == (folder / "src/tiny_weights.bin").read_bytes()


@pytest.mark.long
def test_a_package_inside_another_project_installs_nothing_of_itself(tmp_path: Path) -> None:
    package(tmp_path, "text")
    text = CMAKE.replace("find_package(tiny 1.0 REQUIRED)", "add_subdirectory(package)")
    (tmp_path / "CMakeLists.txt").write_text(text, encoding="ascii")
    answer("cmake", "-S", tmp_path, "-B", tmp_path / "app")
    answer("cmake", "--build", tmp_path / "app")
    answer("cmake", "--install", tmp_path / "app", "--prefix", tmp_path / "usr")
    assert not (tmp_path / "usr").exists()
    assert answer(tmp_path / "app/app").startswith("y[0] = ")


@pytest.mark.long
@pytest.mark.parametrize(("compiler", "kind"), [("gcc", "text"), ("clang-19", "external"), ("gcc", "threads")])
def test_sanitize_runs_the_self_test_without_debug_information(tmp_path: Path, compiler: str, kind: str) -> None:
    folder = package(tmp_path, kind)
    told = subprocess.run(
        ["make", "sanitize", f"CC={compiler}", f"WARNINGS={WARNINGS}"],
        cwd=folder,
        env=tool_environment(),  # under another make this one would tell which folder it leaves, after the last line
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert last(told.stdout) == "PASS"
    compiled = [line for line in told.stdout.splitlines() if " -c " in line]
    assert compiled
    assert all("-fsanitize=address,undefined" in line and " -g " not in line for line in compiled)
    kernels = folder / "src/tiny_kernels.c"
    text = kernels.read_text(encoding="ascii")
    kernels.write_text(text.replace("+ b[i]", "+ b[i] + (float)(i + 2147483647) * 0.0f"), encoding="ascii")
    assert kernels.read_text(encoding="ascii") != text
    done = subprocess.run(["make", "-s", "sanitize", f"CC={compiler}"], cwd=folder, capture_output=True, check=False)
    assert done.returncode != 0
    assert b"signed integer overflow" in done.stderr
    make(folder, "clean")
    assert not (folder / "build/sanitize").exists()
