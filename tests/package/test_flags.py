"""Packages in builds that are not ours: other compilers, processors and flags give right results, or an error that
says which flags to add."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from edgetune.codegen import polynomials
from edgetune.target.target import load_target, strict_math
from tests import flags_sample, package_sample
from tests.missing_tools import require

STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
PATHS = ("-std=gnu11", "-Iinclude", "-Isrc", "-Itest")
# GCC reassociates only where signs of zeros and traps do not count either.
REASSOCIATING = ("-O1", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math")
ALL_BUT_FINITE = ("-O2", "-ffast-math", "-fno-finite-math-only")
POWERPC = ("qemu-ppc", "-L", "/usr/powerpc-linux-gnu")
CORES = {
    "Cortex-M0+": ("-mcpu=cortex-m0plus",),
    "Cortex-M4": ("-mcpu=cortex-m4", "-mfloat-abi=soft"),
    "Cortex-M4F": ("-mcpu=cortex-m4", "-mfloat-abi=hard"),
    "Cortex-M7": ("-mcpu=cortex-m7", "-mfloat-abi=hard"),
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flags_sample.build(tmp_path_factory.mktemp("flags"))


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}"
    return done.stdout


def _passes(program: Path, emulator: Sequence[str] = ()) -> None:
    assert _run([*emulator, str(program)], program.parent).splitlines()[-1] == "PASS"


@pytest.fixture(scope="module")
def objects(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Compile the files of the package and its self-test with only the flags given.

    The file that calls the kernels one after the other is compiled once for each processor.
    """
    folder = tmp_path_factory.mktemp("objects")
    made: dict[tuple[str, ...], str] = {}

    def compiled(cc: Sequence[str], flags: Sequence[str], last: Sequence[str] = ()) -> list[str]:
        names = []
        for file in [*sorted((package / "src").glob("*.c")), package / "test/flags_selftest.c"]:
            chosen = ("-O1",) if file.name == "flags.c" else (*flags, *last)
            key = (*cc, *chosen, file.name)
            if key not in made:
                made[key] = str(folder / f"{len(made)}.o")
                _run([*cc, *chosen, *STRICT, *PATHS, "-c", str(file), "-o", made[key]], package)
            names.append(made[key])
        return names

    return compiled


@pytest.mark.long
@pytest.mark.parametrize("flags", [("-O0",), ("-Os",), ("-O2", "-flto"), REASSOCIATING, ALL_BUT_FINITE], ids=" ".join)
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_other_flags_give_right_results(
    cc: str, flags: tuple[str, ...], objects: Callable[..., list[str]], tmp_path: Path
) -> None:
    _run([cc, *objects([cc], flags), *flags, "-o", str(tmp_path / "test"), "-lm"], tmp_path)
    _passes(tmp_path / "test")


# Without SSE, x87 computes floats with more digits than they have. Compiled for PowerPC by clang, linked by GCC.
MACHINES = {
    "32 bits": (("gcc", "-m32"), ("gcc", "-m32"), ("-O2",), ()),
    "32 bits, fast": (("gcc", "-m32", "-msse2"), ("gcc", "-m32"), ALL_BUT_FINITE, ()),
    "32 bits, clang": (("clang-19", "-m32"), ("clang-19", "-m32"), ("-O2",), ()),
    "x87": (("gcc", "-m32", "-march=i586"), ("gcc", "-m32"), ("-O2",), ()),
    "x87, clang": (("clang-19", "-m32", "-march=i586"), ("clang-19", "-m32"), ALL_BUT_FINITE, ()),
    "musl": (("musl-gcc",), ("musl-gcc",), ("-O2",), ()),
    "smallest, clang": (("clang-19",), ("clang-19",), ("-Oz",), ()),
    "big-endian": (("powerpc-linux-gnu-gcc",), ("powerpc-linux-gnu-gcc",), ("-O2",), POWERPC),
    "big-endian, fast": (("powerpc-linux-gnu-gcc",), ("powerpc-linux-gnu-gcc",), ALL_BUT_FINITE, POWERPC),
    "big-endian, clang": (
        ("clang-19", "--target=powerpc-linux-gnu", "-isystem", "/usr/powerpc-linux-gnu/include"),
        ("powerpc-linux-gnu-gcc",),
        ("-O2",),
        POWERPC,
    ),
}


@pytest.mark.parametrize(
    "machine",
    [name if name in {"32 bits", "big-endian"} else pytest.param(name, marks=pytest.mark.long) for name in MACHINES],
)
def test_other_machines_give_right_results(machine: str, objects: Callable[..., list[str]], tmp_path: Path) -> None:
    cc, linker, flags, emulator = MACHINES[machine]
    if "-m32" in cc:
        require("/usr/lib32")
    _run([*linker, *objects(cc, flags), "-o", str(tmp_path / "test"), "-lm"], tmp_path)
    _passes(tmp_path / "test", emulator)


@pytest.mark.long
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_one_file_of_all_sources_gives_right_results(cc: str, package: Path, tmp_path: Path) -> None:
    sources = [*sorted((package / "src").glob("*.c")), package / "test/flags_selftest.c"]
    (tmp_path / "all.c").write_text("".join(f'#include "{source}"\n' for source in sources), encoding="utf-8")
    one = str(tmp_path / "all.c")
    _run([cc, "-O1", *STRICT, *PATHS, one, "-o", str(tmp_path / "test"), "-lm"], package)
    _passes(tmp_path / "test")


@pytest.mark.long
@pytest.mark.parametrize("flags", [("-O2", "-ffast-math"), ("-Ofast", "-Wno-deprecated")], ids=" ".join)
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_without_nan_and_infinity_an_error_says_which_flags_to_add(
    cc: str, flags: tuple[str, ...], package: Path, objects: Callable[..., list[str]], tmp_path: Path
) -> None:
    """It says so of the kernels and of the self-test, which could not see a NaN; with what it says both are right."""
    added: list[str] = []
    for source in ("src/flags_kernels.c", "test/flags_selftest.c"):
        command = [cc, *flags, *PATHS, "-fsyntax-only", source]
        refused = subprocess.run(command, cwd=package, capture_output=True, text=True, check=False)
        told = re.search(r"error: .*add to the end of this file's flags: ([^\"\n]*)", refused.stderr)
        assert refused.returncode, refused.stderr
        assert told, refused.stderr
        added = told[1].split()
        assert tuple(added) == strict_math(())
    _run([cc, *objects([cc], flags, added), *flags, "-o", str(tmp_path / "test"), "-lm"], tmp_path)
    _passes(tmp_path / "test")


@pytest.mark.long
@pytest.mark.parametrize("flags", ["-O1 -ffast-math", "-Ofast -Wno-deprecated", " ".join(REASSOCIATING)])
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_the_packages_own_makefile_takes_such_flags_back(cc: str, flags: str, package: Path, tmp_path: Path) -> None:
    make = ["make", "-s", "selftest", f"CC={cc}", f"CFLAGS={flags}", f"OBJDIR={tmp_path}"]
    assert _run(make, package).splitlines()[-1] == "PASS"


@pytest.mark.long
def test_so_does_its_cmake_file(package: Path, tmp_path: Path) -> None:
    options = ["-DCMAKE_C_FLAGS=-ffast-math -Werror", "-DFLAGS_CFLAGS=-O1;-funsafe-math-optimizations"]
    _run(["cmake", "-S", str(package), "-B", str(tmp_path), *options], tmp_path)
    _run(["cmake", "--build", str(tmp_path), "--target", "flags_selftest"], tmp_path)
    _passes(tmp_path / "flags_selftest")


@pytest.mark.long
@pytest.mark.parametrize("core", CORES)
def test_sources_compile_for_microcontrollers(core: str, package: Path, tmp_path: Path) -> None:
    """Kernels with barriers too, which name registers: `-ffast-math` needs them, and some cores have no float ones.

    Of a package for Linux on ARM, the runtime too: it asks Linux for the features of the CPU, where there is one.
    """
    package_sample.emit(tmp_path / "arm", target=load_target("generic-armv7"), measure=False)
    for folder, flags in ((package, ()), (package, ("-ffast-math", "-fno-finite-math-only")), (tmp_path / "arm", ())):
        wanted = "*_kernels.c" if flags else "*.c"
        sources = [str(source) for source in sorted((folder / "src").glob(wanted))]
        assert sources
        command = ["arm-none-eabi-gcc", "-mthumb", *CORES[core], "-O1", *flags, *STRICT, *PATHS]
        for source in sources:
            _run([*command, f"-I{folder}/include", "-c", source, "-o", str(tmp_path / "object.o")], folder)


def test_the_sample_calls_all_functions_of_floats(package: Path) -> None:
    """The rest of the preamble is integers, on which no flag of float arithmetic bears."""
    called = set(re.findall(r"\bflags__(\w+)\(", (package / "src/flags_kernels.c").read_text(encoding="utf-8")))
    assert {f"{name}_{short}" for name in polynomials.BODIES for short in ("f32", "f32x4")} <= called
    rest = {
        "sigmoid_f64",
        "nearbyint_f32x4",
        "floor_f32x4",
        "ceil_f32x4",
        "whole_f32x4",
        "nearest_f32x4",
        "f32_to_i64",
        "f64_to_i64",
        "f32_to_i8",
        "max_f32",
    }
    rest |= {"vmax_f32x4", "vmin_f32x4", "lanes_sum_f32x4", "lanes_largest_f32x4", "from_f16_f32", "to_f16_f32"}
    rest |= {f"lanes_{word}_each_f32x4x4" for word in ("sum", "largest", "smallest")}
    assert rest | {"from_bf16_f32", "to_bf16_f32", "min_f32"} <= called


def test_what_a_target_asks_for_is_not_taken_back() -> None:
    unsafe = ("-funsafe-math-optimizations",)
    assert strict_math(unsafe) == ("-fno-finite-math-only",)
    kept = load_target("generic-armv7").compiler
    assert kept.strict_math == strict_math(())[1:]
    assert kept.kernel_line[-len(kept.strict_math) :] == kept.strict_math
    assert strict_math(("-Ofast", "-fsigned-zeros")) == ("-fsigned-zeros",)
