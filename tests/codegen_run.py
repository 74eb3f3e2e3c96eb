"""Compiles kernels that the printer wrote, with the compilers and emulators of a target, and runs them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgetune.codegen import KernelSource, kernel_unit, shim
from edgetune.target.target import Target, load_target
from tests.compile_cache import compiled

STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
# Lines alone (-g1): at -O1 the places of variables took GCC twenty times as long as all else.
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1", "-O1")

# A function of a library can be replaced when that is loaded, so the shim calls the kernel and is no copy of it.
_LIBRARY = ("-fPIC", "-shared", "-fsemantic-interposition")
_RUNNER = (Path(__file__).parent / "kernel_runner.c").read_text(encoding="utf-8")


def wide_target(bits: int = 512) -> Target:
    """This machine's target with another vector width, and registers and caches that do not depend on the machine."""
    core = {"vector_registers": 32, "l1_bytes": 32 << 10, "l2_bytes": 1 << 20, "has_float16": True}
    return load_target("host").model_copy(update=core | {"vector_bits": bits})


def plain_core(bits: int) -> Target:
    """A core of x86-64 with vectors of so many bits, whatever instructions this machine has beside them."""
    registers = {"vector_bits": bits, "vector_registers": 32}
    return load_target("generic-x86_64").model_copy(update=registers)


def flags_for(target: Target, cc: str) -> list[str]:
    """The target's flags for the kernel file; clang does without those that only GCC has."""
    flags = list(target.compiler.kernel_line)
    return [f for f in flags if "clang" not in cc or not f.startswith(("-mprefer", "-mtune"))]


def compile_strictly(source: KernelSource, target: Target, folder: Path, cc: str, extra: Sequence[str] = ()) -> str:
    """Compile to assembly with all warnings as errors; returns the assembly."""
    name = f"{source.symbol}.c"
    command = [cc, *flags_for(target, cc), *STRICT, *extra, "-S"]
    made = compiled(command, {name: kernel_unit(source, target, "test")}, folder, suffix=".s")
    return made.read_text(encoding="utf-8")


def run_kernel(
    source: KernelSource,
    target: Target,
    arrays: Sequence[np.ndarray],
    folder: Path,
    *,
    cc: str | None = None,
    extra: Sequence[str] = (),
    over: tuple[int, int] = (0, 0),
) -> list[np.ndarray]:
    """Call the kernel in a process of its own (under the target's emulator) and return all parameters afterwards.

    `over` are the numbers of a parameter and of the one whose memory it is given.
    """
    arrays = [np.ascontiguousarray(array) for array in arrays]
    sizes = [array.nbytes for array in arrays] + ([source.scratch_bytes] if source.scratch_bytes else [])
    compiler = cc or target.compiler.cc
    command = [compiler, *flags_for(target, compiler), *extra]
    text = kernel_unit(source, target, "test") + shim(source, "test")
    library = compiled([*command, *_LIBRARY], {f"{source.symbol}.c": text}, folder, suffix=".so", libraries=["-lm"])
    runner = compiled(command, {"runner.c": _RUNNER}, folder, suffix=".program", libraries=["-ldl"])
    (folder / "in").write_bytes(b"".join(array.tobytes() for array in arrays))
    words = [library, folder / "in", folder / "out", len(arrays), *over, *sizes]
    program = [*target.emulator, str(runner), *map(str, words)]
    ran = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr[:3000]}\n{text}"
    data, results, at = (folder / "out").read_bytes(), [], 0
    for array in arrays:
        results.append(np.frombuffer(data, array.dtype, array.size, at).reshape(array.shape))
        at += array.nbytes
    return results
