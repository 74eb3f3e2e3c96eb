"""Runs CUDA kernels on the CPU, as the self-test of a package does without a GPU, each compiled with its launches."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgetune.codegen.cuda.emit import emit_cuda_kernel
from edgetune.codegen.cuda.half import headers
from edgetune.codegen.cuda.maths import render_device_preamble
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.packing import split_packing
from edgetune.graph.evaluate import ReferenceFunction
from edgetune.graph.program import Kernel
from edgetune.measure.reference import random_input
from edgetune.resources import templates_dir
from edgetune.schedule.algorithms.apply import replay_plainly
from edgetune.schedule.gpu_defaults import default_gpu_schedule
from edgetune.target.gpu import GpuTarget
from edgetune.target.target import load_board_kind
from tests.cuda.batch import BatchCase, Step

BARRIER = "__syncthreads();"

_MAIN = """
int main(int, char **names)
{
    static const size_t sizes[] = {%(sizes)s};
    unsigned char *buffers[%(number)d];
    FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
    for (int i = 0; i < %(number)d; i++) {
        cudaMalloc((void **)&buffers[i], sizes[i]);
        if (i < %(params)d && fread(buffers[i], 1, sizes[i], in) != sizes[i])
            return 2;
    }
%(launches)s
    for (int i = 0; i < %(params)d; i++)
        fwrite(buffers[i], 1, sizes[i], out);
    fclose(in);
    return fclose(out);
}
"""


@dataclass(frozen=True)
class Checked:
    """A kernel in CUDA with inputs, and the outputs of the reference, whose sums are in double."""

    source: KernelSource
    arrays: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]

    def error(self, given: Sequence[bytes]) -> float:
        """The largest error of the kernel, as a share of the largest element; `given` is what `arrays` are then."""
        worst = 0.0
        for wanted, data in zip(self.outputs, given[-len(self.outputs) :], strict=True):
            got = np.frombuffer(data, wanted.dtype).reshape(wanted.shape).astype(np.float64)
            wide = wanted.astype(np.float64)
            same = (got == wide) | (np.isnan(got) & np.isnan(wide))
            error = np.abs(np.subtract(got, wide, where=~same, out=np.zeros_like(wide)))
            largest = float(np.max(np.abs(wide), where=np.isfinite(wide), initial=0.0)) or 1.0
            worst = max(worst, float(np.max(np.where(np.isnan(error), np.inf, error), initial=0.0)) / largest)
        return worst

    def case(self, prefix: str) -> BatchCase:
        """The kernel as a case of a batch, whose buffers are `buffers`; its names begin with `prefix`."""
        places = tuple((place, 0) for place in range(len(self.buffers)))
        preamble = headers([self.source]) + render_device_preamble(self.source.preamble, prefix)
        return BatchCase(preamble, (self.source,), (Step(self.source, places),))

    @property
    def buffers(self) -> tuple[np.ndarray, ...]:
        """The arrays, and the scratch where there is one."""
        scratch = self.source.scratch_bytes
        return (*self.arrays, np.zeros(scratch, np.uint8)) if scratch else self.arrays

    def without_barrier(self, number: int) -> Checked:
        """The same without the barrier of that number."""
        parts = self.source.definition.split(BARRIER)
        text = BARRIER.join(parts[: number + 1]) + BARRIER.join(parts[number + 1 :])
        return self.with_text(text)

    def renamed(self, prefix: str) -> Checked:
        """The same whose names begin with another prefix than "check"."""
        source = self.source
        names = [launch.kernel.replace("check__", f"{prefix}__") for launch in source.launches]
        launches = tuple(replace(one, kernel=name) for one, name in zip(source.launches, names, strict=True))
        symbol, text = (part.replace("check__", f"{prefix}__") for part in (source.symbol, source.definition))
        return replace(self, source=replace(source, symbol=symbol, definition=text, launches=launches))

    def with_text(self, definition: str) -> Checked:
        """The same with another text of its kernels."""
        return replace(self, source=replace(self.source, definition=definition))


def gpu() -> GpuTarget:
    """The target cuda-generic."""
    found = load_board_kind("cuda-generic")
    assert isinstance(found, GpuTarget)
    return found


def checked(
    kernel: Kernel, seed: int = 0, trace: str | None = None, prefix: str = "check", target: GpuTarget | None = None
) -> Checked:
    """A kernel of a program under `trace`, or else its default schedule, and random inputs; `prefix` begins names.

    It is for cuda-generic where no `target` is given.
    """
    target = target or gpu()
    text = trace or default_gpu_schedule(kernel.function, target)[0]
    module, packing = split_packing(replay_plainly(kernel.function, text))
    source = emit_cuda_kernel(module, target, f"{prefix}__k_{kernel.name}", kernel.unaligned)
    generator = np.random.default_rng(seed)
    given = [
        random_input(param, tuple(other for other in kernel.params if other is not param), generator, positive=False)
        for param in kernel.params
        if param.role != "output"
    ]
    wanted = [(param.shape, param.dtype) for param in kernel.params if param.role == "output"]
    outputs = ReferenceFunction(kernel.function).run(given, wanted)
    empty = [np.zeros(shape, dtype) for shape, dtype in wanted]
    arrays = [packing[number].apply(array) if number in packing else array for number, array in enumerate(given)]
    return Checked(source, (*arrays, *empty), tuple(outputs))


def run(check: Checked, folder: Path) -> subprocess.CompletedProcess[str] | float:
    """The largest error of the kernel, as a share of the largest element; the process where it failed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.cpp").write_text(_text(check), encoding="utf-8")
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-Wno-unknown-pragmas", "-fwrapv"]
    include = f"-I{templates_dir() / 'package/cuda'}"
    subprocess.run(["g++", *flags, "-fsanitize=thread", include, "-c", "kernel.cpp"], cwd=folder, check=True)
    subprocess.run(["g++", "kernel.o", "-o", "kernel"], cwd=folder, check=True)
    (folder / "in").write_bytes(b"".join(array.tobytes() for array in check.arrays))
    command = ["./kernel", "in", "out"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        return done
    data = (folder / "out").read_bytes()
    ends = np.cumsum([array.nbytes for array in check.arrays])
    return check.error([data[end - array.nbytes : end] for end, array in zip(ends, check.arrays, strict=True)])


def _text(check: Checked) -> str:
    source = check.source
    sizes = [array.nbytes for array in check.arrays] + ([source.scratch_bytes] if source.scratch_bytes else [])
    lines: list[str] = []
    for number, launch in enumerate(source.launches):
        names = []
        for place, operand in enumerate(launch.operands):
            const = "" if operand.writable else "const "
            where = f"buffers[{operand.param}]"
            if operand.param is None:
                where = f"(buffers[{len(check.arrays)}] + {operand.offset})"
            name = f"operand_{number}_{place}"
            lines.append(f"    {const}{operand.c_type} *{name} = ({operand.c_type} *)(void *){where};")
            names.append(f"&{name}")
        lines.append(f"    void *arguments_{number}[] = {{{', '.join(names)}}};")
        grid, block = (", ".join(map(str, extents)) for extents in (launch.grid, launch.block))
        given = f"dim3({grid}), dim3({block}), arguments_{number}, {launch.dynamic_bytes}, nullptr"
        calls = [f"cudaLaunchKernel({launch.kernel}, {given})"]
        if launch.dynamic_bytes:
            most = f"cudaFuncAttributeMaxDynamicSharedMemorySize, {launch.dynamic_bytes}"
            calls.insert(0, f"cudaFuncSetAttribute({launch.kernel}, {most})")
        lines += [f"    if ({call} != cudaSuccess)\n        return 4;" for call in calls]
    main = _MAIN % {
        "sizes": ", ".join(map(str, sizes)),
        "number": len(sizes),
        "params": len(check.arrays),
        "launches": "\n".join(lines),
    }
    return "\n".join(['#include "cuda_runtime.h"\n#include <stdio.h>\n', unit(check), main])


def unit(check: Checked) -> str:
    """The text of the kernels with the functions that they need."""
    source = check.source
    preamble = headers([source]) + render_device_preamble(source.preamble, "check")
    return f"{preamble}\n{with_prefix(source.definition, 'check')}"


def cpu_seconds() -> float:
    """Seconds of CPU of this process and of all that it has started."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def barriers(source: KernelSource) -> Sequence[int]:
    """Numbers of the barriers in the text of a kernel."""
    return range(source.definition.count(BARRIER))
