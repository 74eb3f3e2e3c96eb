"""What ptxas says of kernels: registers, shared memory, and bytes of a thread that lie in device memory."""

from __future__ import annotations

import pytest

from edgetune.errors import ToolchainMissing
from edgetune.target.cuda_toolkit import require_nvcc
from edgetune.target.gpu import GpuTarget
from edgetune.target.ptxas import Cubin, code_bytes, compile_text
from tests.cuda.cpu_check import gpu

_KERNELS = """
extern "C" __global__ void few(float *a) { __shared__ float b[100]; b[threadIdx.x] = *a; __syncthreads(); *a = b[3]; }
__global__ void __launch_bounds__(256) many(const float *a, float *b)
{
    float held[64];
    #pragma unroll
    for (int i = 0; i < 64; i++) held[i] = a[i * 7 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 64; i++) b[i + threadIdx.x * 64] = held[i] * held[63 - i];
}
"""


def few_registers(number: int) -> list[str]:
    """Flags of nvcc for so many registers of a thread, whatever a kernel asks for."""
    return [f"-maxrregcount={number}", "-Xptxas", "--override-directive-values"]


def with_registers(number: int) -> GpuTarget:
    """The target cuda-generic with so many registers of a thread."""
    target = gpu()
    flags = (*target.compiler.nvccflags, *few_registers(number))
    compiler = target.compiler.model_copy(update={"nvccflags": flags})
    return target.model_copy(update={"compiler": compiler})


@pytest.mark.nvcc
def test_registers_and_shared_memory_are_known_by_the_name_in_the_text() -> None:
    found = compile_text(_KERNELS, gpu(), require_nvcc(gpu()))
    assert isinstance(found, Cubin), found
    few, many = sorted(found.kernels, key=lambda kernel: kernel.name)
    assert (few.name, few.shared_bytes, few.slow_bytes) == ("few", 400, 0)
    assert (many.name, many.shared_bytes, many.slow_bytes) == ("many", 0, 0)
    assert many.registers > 48 > few.registers
    assert 0 < code_bytes(found.data) < len(found.data)


@pytest.mark.nvcc
def test_registers_that_do_not_suffice_are_counted_in_bytes() -> None:
    target = with_registers(32)
    found = compile_text(_KERNELS, target, require_nvcc(target))
    assert isinstance(found, Cubin), found
    by_name = {kernel.name: kernel for kernel in found.kernels}
    assert by_name["few"].slow_bytes == 0
    assert by_name["many"].spill_bytes >= by_name["many"].local_bytes > 0
    assert found.slow_bytes == by_name["many"].slow_bytes


@pytest.mark.nvcc
def test_a_text_that_nvcc_refuses_gives_its_first_error() -> None:
    found = compile_text("__global__ void odd() { missing(); }\n", gpu(), require_nvcc(gpu()))
    assert isinstance(found, str)
    assert 'error: identifier "missing" is undefined' in found


@pytest.mark.nvcc
def test_an_nvcc_that_does_not_run_is_missing() -> None:
    nvcc = require_nvcc(gpu()).with_name("nvcc-of-nowhere")
    with pytest.raises(ToolchainMissing, match="does not run"):
        compile_text("", gpu(), nvcc)
