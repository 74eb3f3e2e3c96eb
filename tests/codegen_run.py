"""Compiles kernels that the printer wrote, with the compilers and emulators of a target, and runs them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgetune.codegen import KernelSource, kernel_unit, shim
from edgetune.target.target import Target, load_target

STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")

_MAIN = """
#include <stdio.h>
#include <stdlib.h>
void edgetune_call(void *const *buffers);
int main(int count, char **names) {
  static const size_t sizes[] = {%(sizes)s};
  void *buffers[%(number)d];
  FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
  if (count != 3 || in == NULL || out == NULL) return 1;
  for (int i = 0; i < %(number)d; ++i) {
    buffers[i] = i < %(params)d ? malloc(sizes[i]) : aligned_alloc(64, sizes[i]);
    if (i < %(params)d && fread(buffers[i], 1, sizes[i], in) != sizes[i]) return 2;
  }
  void *const own = buffers[%(over)d];
  buffers[%(over)d] = buffers[%(operand)d];
  edgetune_call(buffers);
  for (int i = 0; i < %(params)d; ++i) fwrite(buffers[i], 1, sizes[i], out);
  buffers[%(over)d] = own;
  for (int i = 0; i < %(number)d; ++i) free(buffers[i]);
  fclose(in);
  return fclose(out);
}
"""


def wide_target(bits: int = 512) -> Target:
    """This machine's target with another vector width, and registers and caches that do not depend on the machine."""
    core = {"vector_registers": 32, "l1_bytes": 32 << 10, "l2_bytes": 1 << 20, "has_float16": True}
    return load_target("host").model_copy(update=core | {"vector_bits": bits})


def flags_for(target: Target, cc: str) -> list[str]:
    """The target's flags for the kernel file; clang does without those that only GCC has."""
    flags = list(target.compiler.kernel_line)
    return [f for f in flags if "clang" not in cc or not f.startswith(("-mprefer", "-mtune"))]


def write_unit(source: KernelSource, target: Target, folder: Path) -> Path:
    """Write the kernel's file and its shim into `folder`; returns the kernel's path."""
    path = folder / f"{source.symbol}.c"
    path.write_text(kernel_unit(source, target, "test"), encoding="utf-8")
    (folder / "shim.c").write_text(shim(source, "test"), encoding="utf-8")
    return path


def compile_strictly(source: KernelSource, target: Target, folder: Path, cc: str, extra: Sequence[str] = ()) -> str:
    """Compile to assembly with all warnings as errors; returns the assembly."""
    path = write_unit(source, target, folder)
    command = [cc, *flags_for(target, cc), *STRICT, *extra, "-S", str(path), "-o", "-"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[:4000] + path.read_text(encoding="utf-8")
    return result.stdout


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
    """Call the kernel in a program of its own (under the target's emulator) and return all parameters afterwards.

    `over` are the numbers of a parameter and of the one whose memory it is given.
    """
    path = write_unit(source, target, folder)
    arrays = [np.ascontiguousarray(array) for array in arrays]
    sizes = [array.nbytes for array in arrays] + ([source.scratch_bytes] if source.scratch_bytes else [])
    main = folder / "main.c"
    places = {"over": over[0], "operand": over[1]}
    text = _MAIN % ({"sizes": ", ".join(map(str, sizes)), "number": len(sizes), "params": len(arrays)} | places)
    main.write_text(text, encoding="utf-8")
    compiler = cc or target.compiler.cc
    program = folder / "program"
    command = [compiler, *flags_for(target, compiler), *extra, str(path), str(folder / "shim.c"), str(main)]
    built = subprocess.run([*command, "-o", str(program), "-lm"], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[:4000] + path.read_text(encoding="utf-8")
    (folder / "in").write_bytes(b"".join(array.tobytes() for array in arrays))
    files = [str(folder / "in"), str(folder / "out")]
    ran = subprocess.run([*target.emulator, str(program), *files], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr[:3000]}\n{path.read_text(encoding='utf-8')}"
    data, results, at = (folder / "out").read_bytes(), [], 0
    for array in arrays:
        results.append(np.frombuffer(data, array.dtype, array.size, at).reshape(array.shape))
        at += array.nbytes
    return results
