"""A kernel of one block runs on the CPU with its threads in both orders: one launch shows a missing barrier."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from edgetune.resources import templates_dir

_PROGRAM = """
#include "cuda_runtime.h"

__global__ void shifted(const float *x, float *y)
{
    __shared__ float held[32];
    const unsigned i = threadIdx.x;
    held[i] = x[i];
    %s
    y[i] += held[%s];
}

int main()
{
    float host[32], *x, *y;
    for (int i = 0; i < 32; i++)
        host[i] = (float)i;
    cudaMalloc((void **)&x, sizeof host);
    cudaMalloc((void **)&y, sizeof host);
    memcpy(x, host, sizeof host);
    memset(y, 0, sizeof host);
    void *arguments[] = {&x, &y};
    if (cudaLaunchKernel(shifted, dim3(1), dim3(32), arguments, 0, nullptr) != cudaSuccess)
        return 1;
    for (int i = 0; i < 32; i++)
        if (y[i] != host[%s])
            return 2;
    return 0;
}
"""
_EARLIER, _LATER = "i == 0 ? 0 : i - 1", "i == 31 ? 31 : i + 1"


@pytest.mark.parametrize("place", [_EARLIER, _LATER])
@pytest.mark.parametrize("barrier", ["__syncthreads();", ""])
def test_a_single_block_runs_in_both_orders(place: str, barrier: str, tmp_path: Path) -> None:
    """Without the sanitizer, whose shadow would tell as well. With its barrier it adds once, not once per order."""
    (tmp_path / "one.cpp").write_text(_PROGRAM % (barrier, place, place))
    include = f"-I{templates_dir() / 'package/cuda'}"
    subprocess.run(["g++", "-std=c++17", "-O1", include, "one.cpp", "-o", "one"], cwd=tmp_path, check=True)
    done = subprocess.run(["./one"], cwd=tmp_path, capture_output=True, text=True, check=False)
    if barrier:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode == 3
        assert "the order in which the threads of a block run changes its results" in done.stderr
