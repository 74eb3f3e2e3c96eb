"""GPU targets: a kind of board whose kernels run on a GPU, as its YAML file describes it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictFloat, StrictInt, StrictStr

from edgetune.target.board_kind import BoardKind, Peak
from edgetune.yaml_reader.checked import Checked
from edgetune.yaml_reader.quantities import ByteCount

Count = Annotated[StrictInt, Field(ge=1)]
_LANES, _FEW_LANES = 128, 64  # float32 lanes of a multiprocessor (CUDA Programming Guide: arithmetic instructions)
_WITH_FEW_LANES = frozenset({60, 70, 72, 75, 80})
_ASYNCHRONOUS = 80  # compute capability from which copies into shared memory are asynchronous
TensorCoreType = Literal["fp16", "bf16", "tf32", "int8", "fp8"]


class GpuCompilers(Checked):
    """The compilers of a GPU's package: nvcc for kernels and host code, and a C++ compiler for checks on the CPU."""

    nvcc: StrictStr = Field(default="nvcc", description="CUDA compiler: on PATH, or in the wheels of extra 'cuda'.")
    nvccflags: tuple[StrictStr, ...] = Field(default=("-O3", "-std=c++17"), description="Flags for every CUDA file.")
    cc: StrictStr = Field(default="gcc", description="C compiler for weights and test programs.")
    cxx: StrictStr = Field(default="g++", description="C++ compiler: nvcc's host compiler, and that of the CPU check.")
    cflags: tuple[StrictStr, ...] = Field(default=("-O2",), description="Flags of the C and C++ compilers.")
    ldflags: tuple[StrictStr, ...] = Field(default=("-lm",), description="Flags after the objects of a program.")
    package: StrictStr | None = Field(default="gcc g++", description="Debian packages of the C and C++ compilers.")


class GpuTarget(BoardKind):
    """A board with a GPU; what it says of memory is per GPU unless it says otherwise."""

    kind: Literal["gpu"] = Field(description="Kernels run on a GPU; without this key, on a CPU.")
    compute_capability: Annotated[StrictInt, Field(ge=50)] = Field(
        description="Compute capability, such as 75 for 7.5: the least that its packages run on, by PTX."
    )
    multiprocessors: Count = Field(description="Streaming multiprocessors.")
    threads_per_multiprocessor: Count = Field(description="Most threads that one multiprocessor holds.")
    registers_per_multiprocessor: Count = Field(description="32-bit registers of one multiprocessor.")
    shared_bytes_per_block: ByteCount = Field(description="Shared memory of one block, without asking for more.")
    dynamic_shared_bytes_per_block: ByteCount | None = Field(
        default=None, description="Most shared memory of one block, where its launch asks for it."
    )
    shared_bytes_per_multiprocessor: ByteCount = Field(description="Shared memory of one multiprocessor.")
    l2_bytes: ByteCount = Field(description="L2 cache.")
    memory_gb_per_s: Annotated[StrictFloat | StrictInt, Field(gt=0)] = Field(description="GB/s of device memory.")
    tensor_cores: tuple[TensorCoreType, ...] = Field(default=(), description="Types that its tensor cores multiply.")
    compiler: GpuCompilers = GpuCompilers()

    @property
    def arch(self) -> str:
        """Its name for nvcc, such as sm_75."""
        return f"sm_{self.compute_capability}"

    @property
    def copies_asynchronously(self) -> bool:
        """Whether it copies into shared memory while threads go on (CUDA Programming Guide: from 8.0 on)."""
        return self.compute_capability >= _ASYNCHRONOUS

    def peak(self) -> Peak | None:
        """One multiply-add per cycle of each float32 lane; None where the clock is not known."""
        if self.clock_mhz is None:
            return None
        lanes = _FEW_LANES if self.compute_capability in _WITH_FEW_LANES else _LANES
        return Peak(self.multiprocessors * lanes, self.clock_mhz, float(self.memory_gb_per_s), "the whole GPU")

    @property
    def most_shared_bytes(self) -> int:
        """Shared memory that one block can have, asked for or not."""
        return max(self.shared_bytes_per_block, self.dynamic_shared_bytes_per_block or 0)

    @property
    def c_compiler(self) -> tuple[str, str | None]:
        """That of weights and test programs."""
        return self.compiler.cc, self.compiler.package

    @property
    def shown(self) -> dict[str, object]:
        """Its architecture, vectors of one thread, and multiprocessors."""
        return {"isa": "cuda", "cpu": self.arch, "vectors": "32 threads", "cores": self.multiprocessors}

    @property
    def stand_in(self) -> str:
        """The CPU check."""
        return "this CPU"


def with_cold_caches(target: GpuTarget) -> GpuTarget:
    """The same GPU, whose L2 cache is flushed before every timed launch."""
    return target.model_copy(update={"caches": "cold"})
