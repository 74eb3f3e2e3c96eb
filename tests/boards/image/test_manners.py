"""Manners of packages of integers on microcontrollers: strict C, no data to initialise, two of them in one image."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from edgetune.target.target import load_target
from tests.distribution_sample import edgetune

TINY = Path(__file__).parents[4] / "shared" / "models" / "mlperf_tiny"
BOARDS = ("cortex-m0plus", "mps2-an386", "mps3-an547")
STRICT = (
    "-std=c11 -Wall -Wextra -Wconversion -Wdouble-promotion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror"
)

pytestmark = pytest.mark.long


def _run(command: str, folder: Path) -> str:
    done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module", params=BOARDS)
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The board, and a folder with packages of two models for it."""
    board: str = request.param
    folder = tmp_path_factory.mktemp(board)
    for model in ("kws_int8", "ad_int8"):
        done = edgetune(["build", str(TINY / f"{model}.tflite"), "--board", board, "-o", model], cwd=folder)
        assert done.returncode == 0, done.stderr
    return board, folder


def _flags(board: str, level: str) -> str:
    target = load_target(board)
    flags = (flag for flag in target.compiler.cflags if not flag.startswith("-O"))
    return f"{level} {' '.join((*flags, *target.compiler.strict_math))}"


@pytest.mark.parametrize("level", ["-O3", "-O2", "-Os"])
def test_all_files_are_strict_c11_without_a_warning(packages: tuple[str, Path], level: str) -> None:
    board, folder = packages
    for model in ("kws_int8", "ad_int8"):
        for file in sorted((folder / model / "src").glob("*.c")):
            _run(f"arm-none-eabi-gcc {STRICT} {_flags(board, level)} -Iinclude -Isrc -c {file} -o x.o", folder / model)


def test_the_header_is_c_plus_plus_17(packages: tuple[str, Path]) -> None:
    board, folder = packages
    text = '#include "kws_int8.h"\n#include "ad_int8.h"\nint main() { return KWS_INT8_WORKSPACE_BYTES > 0 ? 0 : 1; }\n'
    (folder / "both.cpp").write_text(text)
    strict = "-std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Wold-style-cast -Werror"
    include = "-Ikws_int8/include -Iad_int8/include"
    _run(f"arm-none-eabi-g++ {strict} {_flags(board, '-O2')} {include} -c both.cpp -o both.o", folder)


def test_two_packages_are_parts_of_one_image_and_have_no_data(packages: tuple[str, Path]) -> None:
    board, folder = packages
    objects = []
    for model in ("kws_int8", "ad_int8"):
        _run(f"make -s -C {model} lib CFLAGS=-Os", folder)
        objects.append(f"{model}/lib/lib{model}.a")
        for line in _run(f"arm-none-eabi-size {objects[-1]}", folder).splitlines()[1:]:
            _, data, bss, *_ = line.split()
            assert (data, bss) == ("0", "0"), line
    whole = f"-Wl,--whole-archive {' '.join(objects)} -Wl,--no-whole-archive"
    _run(f"arm-none-eabi-gcc {_flags(board, '-Os')} -nostdlib -r {whole} -o both.o", folder)
    defined = [line.split()[-1] for line in _run("arm-none-eabi-nm -g --defined-only both.o", folder).splitlines()]
    assert len(defined) == len(set(defined))
    assert all(name.startswith(("kws_int8_", "ad_int8_")) for name in defined), defined
