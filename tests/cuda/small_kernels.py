"""Kernels of a few statements in one program, which runs them on the CPU: what they write, or why they are stopped."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from edgetune.resources import templates_dir

_HEAD = """
#include "cuda_runtime.h"
#include <stdio.h>
"""
_KERNEL = """
__global__ void kernel_%d(const float *x, float *y)
{
    __shared__ float held[128];
    const unsigned i = threadIdx.x;
    (void)x, (void)y, (void)held, (void)i;
    %s
}
"""
_MAIN = """
int main(int, char **words)
{
    void (*const kernels[])(const float *, float *) = {%s};
    float host[128], *x, *y;
    for (int i = 0; i < 128; i++)
        host[i] = (float)i;
    cudaMalloc((void **)&x, sizeof host);
    cudaMalloc((void **)&y, sizeof host);
    memcpy(x, host, sizeof host);
    memset(y, 0, sizeof host);
    void *arguments[] = {&x, &y};
    const dim3 grid((unsigned)atoi(words[2]));
    if (cudaLaunchKernel(kernels[atoi(words[1])], grid, dim3(32), arguments, 0, nullptr) != cudaSuccess)
        return 1;
    for (int i = 0; i < 32; i++)
        printf("%%g ", (double)y[i]);
    return 0;
}
"""
_FLAGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-misleading-indentation")


def compiled_kernels(bodies: Sequence[str], folder: Path, *, watched: bool) -> Path:
    """A program of kernels with these bodies, whose accesses the shadow sees where they are `watched`.

    They read 0, 1, 2, ... from `x`, write `y`, and have `held`, 128 floats in shared memory; `i` is their thread.
    """
    name = "watched" if watched else "plain"
    kernels = "".join(_KERNEL % pair for pair in enumerate(bodies))
    names = ", ".join(f"kernel_{number}" for number in range(len(bodies)))
    (folder / f"{name}.cpp").write_text(_HEAD + kernels + _MAIN % names)
    watch = ["-fsanitize=thread"] if watched else []
    compile_it = ["g++", *_FLAGS, *watch, f"-I{templates_dir() / 'package/cuda'}", "-c", f"{name}.cpp"]
    subprocess.run(compile_it, cwd=folder, check=True)
    subprocess.run(["g++", f"{name}.o", "-o", name], cwd=folder, check=True)
    return folder / name


def run_kernel(program: Path, number: int, blocks: int = 1) -> subprocess.CompletedProcess[str]:
    """Run the kernel of that number with 32 threads of each block: it writes the first 32 values of `y`."""
    command = [str(program), str(number), str(blocks)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
