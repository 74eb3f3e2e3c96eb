"""Runs many CUDA kernels on the CPU after one compilation: cases of some launches each, every case in its own process.

The stand-in for CUDA's runtime is that of packages, with its checks. Each kernel has a section of its own for its
shared memory, so that only this is filled and watched.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetune.codegen.kernel_source import KernelSource, Launch
from edgetune.resources import templates_dir

FLAGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-Wno-unknown-pragmas", "-fwrapv")
_ALIGNMENT = 256
_MOST_SHARED = "cudaFuncAttributeMaxDynamicSharedMemorySize"
_KERNEL = re.compile(r"(?=^__global__ )", re.MULTILINE)

_CASE = """
static void case_%(number)d([[maybe_unused]] unsigned char *const *b)
{
%(lines)s}
"""
_MAIN = """
extern "C" void run_case(unsigned number, unsigned count, unsigned char *const *host, const size_t *bytes)
{
    static void (*const cases[])(unsigned char *const *) = {%(cases)s};
    std::vector<unsigned char *> device(count);

    for (unsigned i = 0; i < count; i++) {
        void *memory = nullptr;
        if (cudaMalloc(&memory, bytes[i]) != cudaSuccess)
            cuda_on_cpu::fail("no memory");
        device[i] = static_cast<unsigned char *>(memory);
        memcpy(memory, host[i], bytes[i]);
    }
    cases[number](device.data());
    for (unsigned i = 0; i < count; i++)
        memcpy(host[i], device[i], bytes[i]);
}
"""


class BatchError(Exception):
    """A case was stopped; the message is what its process said, or how it ended."""


@dataclass(frozen=True)
class Step:
    """A kernel, and for each of its parameters, then for its scratch, a buffer of the case and an offset in bytes."""

    source: KernelSource
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class BatchCase:
    """Kernels in their order, with the functions that they need; names of different cases differ."""

    preamble: str
    kernels: tuple[KernelSource, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Batch:
    """Compiled cases."""

    library: Path

    def run(self, number: int, buffers: Sequence[np.ndarray], seconds: int = 300) -> list[bytes]:
        """Run a case on copies of `buffers`; returns what they hold afterwards. Raises BatchError."""
        sizes = [max(1, array.nbytes) for array in buffers]
        offsets = np.concatenate([[0], np.cumsum([-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes])])
        with mmap.mmap(-1, int(offsets[-1]) + mmap.PAGESIZE) as shared, tempfile.TemporaryFile() as said:
            for offset, array in zip(offsets, buffers, strict=False):
                shared[int(offset) : int(offset) + array.nbytes] = np.ascontiguousarray(array).tobytes()
            child = os.fork()
            if child == 0:
                self._call(number, shared, offsets, sizes, said.fileno(), seconds)
            _, status = os.waitpid(child, 0)
            if status:
                said.seek(0)
                words = said.read().decode(errors="replace").strip()
                raise BatchError(words or f"the process of the case ended with status {status}")
            ends = (int(offset) + array.nbytes for offset, array in zip(offsets, buffers, strict=False))
            return [shared[int(offset) : end] for offset, end in zip(offsets, ends, strict=False)]

    def _call(
        self, number: int, shared: mmap.mmap, offsets: np.ndarray, sizes: Sequence[int], said: int, seconds: int
    ) -> None:
        """Run in a child, which ends here."""
        signal.alarm(seconds)
        os.dup2(said, 2)
        try:
            count = len(sizes)
            base = ctypes.addressof((ctypes.c_char * len(shared)).from_buffer(shared))
            pointers = (ctypes.c_void_p * count)(*(base + int(offset) for offset in offsets[:-1]))
            ctypes.CDLL(str(self.library)).run_case(number, count, pointers, (ctypes.c_size_t * count)(*sizes))
            os._exit(0)
        finally:
            os._exit(1)


def compile_batch(cases: Sequence[BatchCase], folder: Path, flags: Sequence[str] = FLAGS) -> Batch:
    """One library of all cases. Raises CalledProcessError with the compiler's words."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = ['#include "cuda_runtime.h"\n']
    for number, case in enumerate(cases):
        parts += [case.preamble, *(_with_own_memory(source, number) for source in case.kernels)]
        lines = "".join(_step(number, place, step) for place, step in enumerate(case.steps))
        parts.append(_CASE % {"number": number, "lines": lines})
    parts.append(_MAIN % {"cases": ", ".join(f"case_{number}" for number in range(len(cases)))})
    (folder / "batch.cpp").write_text("\n".join(parts), encoding="utf-8")
    include = f"-I{templates_dir() / 'package/cuda'}"
    for command in (
        ["g++", *flags, "-fPIC", "-fsanitize=thread", include, "-c", "batch.cpp"],
        ["g++", "-shared", "batch.o", "-o", "batch.so"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=900)
    return Batch(folder / "batch.so")


def _section(kernel: str, number: int) -> str:
    return f"shared_{number}_{kernel}"


def _with_own_memory(source: KernelSource, number: int) -> str:
    """The text of the kernels of a source, each of which has a section for its shared memory."""
    head, *kernels = _KERNEL.split(source.definition)
    texts = [head]
    for text, launch in zip(kernels, source.launches, strict=True):
        name = _section(launch.kernel, number)
        own = f'static __attribute__((section("{name}"), aligned(16)))'
        declared = f'extern "C" __attribute__((weak)) unsigned char __start_{name}[], __stop_{name}[];\n'
        texts.append(f"{declared}#undef __shared__\n#define __shared__ {own}\n{text}")
    return "\n".join(texts)


def _step(number: int, place: int, step: Step) -> str:
    return "".join(
        _launch(f"{place}_{which}", number, step, launch) for which, launch in enumerate(step.source.launches)
    )


def _launch(tag: str, number: int, step: Step, launch: Launch) -> str:
    name, lines, names = _section(launch.kernel, number), [], []
    for which, operand in enumerate(launch.operands):
        buffer, offset = step.places[-1 if operand.param is None else operand.param]
        offset += operand.offset if operand.param is None else 0
        of = f"{'' if operand.writable else 'const '}{operand.c_type} *"
        lines.append(f"{of}operand_{tag}_{which} = ({of})(void *)(b[{buffer}] + {offset});")
        names.append(f"&operand_{tag}_{which}")
    grid, block = (", ".join(map(str, extents)) for extents in (launch.grid, launch.block))
    last = f"arguments_{tag}, {launch.dynamic_bytes}, nullptr"
    call = f"cudaLaunchKernel({launch.kernel}, dim3({grid}), dim3({block}), {last})"
    if launch.dynamic_bytes:
        lines.append(f"cudaFuncSetAttribute({launch.kernel}, {_MOST_SHARED}, {launch.dynamic_bytes});")
    lines += [
        f"void *arguments_{tag}[] = {{{', '.join(names)}}};",
        f"cuda_on_cpu::shared_first = __start_{name};",
        f"cuda_on_cpu::shared_end = __stop_{name};",
        f'if ({call} != cudaSuccess)\n        cuda_on_cpu::fail("a launch is refused");',
    ]
    return "".join(f"    {line}\n" for line in lines)
