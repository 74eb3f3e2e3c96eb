"""The content of packages in CUDA: .cu files, one piece of device memory, a self-test that also runs without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from edgetune.errors import KernelFailed
from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.program import Program
from edgetune.package.calls import CallView, KernelView
from edgetune.package.constants import Placement, Weights
from edgetune.package.content import Views
from edgetune.package.core_files import vector_files, weight_files
from edgetune.package.diagnostics import compile_failure
from edgetune.package.flags import CompilerFlags
from edgetune.package.interface import Interface
from edgetune.package.package_file import PackageFile
from edgetune.package.program_image import ProgramImage
from edgetune.package.size import CodeSize
from edgetune.package.vectors import Vectors
from edgetune.target.board_kind import BoardKind
from edgetune.target.cuda_toolkit import find_nvcc, nvcc_version
from edgetune.target.gpu import GpuTarget
from edgetune.target.isa.cpu_features import CpuChecks
from edgetune.target.ptxas import code_bytes, compile_cubin

ALIGNMENT = 256  # of device memory, as cudaMalloc gives it (CUDA C++ Programming Guide, "Device Memory Accesses")
_CONTEXT_WORDS = 8  # of an instance, besides its launches and the caller's tensors
ON_CPU = "this machine's CPU instead of a GPU"
_STAND_INS = ("cuda_runtime.h", "cuda_atomics.h", "cuda_mma.h", "cuda_pipeline.h", "cuda_runtime_api.h")


@dataclass(frozen=True)
class DeviceMemory:
    """Offsets in the device memory of an instance, in bytes: of the weights, and of the caller's tensors by buffer."""

    weights: int
    tensors: Mapping[int, int]
    nbytes: int
    alignment: int = ALIGNMENT


def device_memory(program: Program, plan: MemoryPlan, weights: Weights) -> DeviceMemory:
    """Place weights and copies of inputs and outputs after the arena."""
    end = _padded(plan.arena_bytes)
    at, end = end, end + _padded(weights.nbytes)
    tensors = {}
    for buffer in (*program.input_buffers(), *program.output_buffers()):
        tensors[buffer.id] = end
        end += _padded(buffer.nbytes)
    return DeviceMemory(at, tensors, max(end, ALIGNMENT))


def _padded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


LAUNCH_US = 2.0
"""What one launch into a stream costs, of the order of what every driver takes; a replayed one costs about half."""

MOST_SHARE = 0.1
_MACS_PER_US = 128 * 1000
"""Of one multiprocessor: as many multiply-adds in a cycle as the widest parts have, at 1 GHz."""


@dataclass(frozen=True)
class GraphReplay:
    """The rule's answer: `wanted` where `launches` take more than a tenth of `run_us`, microseconds of one run.

    A kernel without a time counts as long as its multiply-adds or its bytes need at least, so that doubt means a graph;
    then the run is not `measured`.
    """

    launches: int
    run_us: float
    measured: bool

    @property
    def launches_us(self) -> float:
        """What the launches cost one by one."""
        return self.launches * LAUNCH_US

    @property
    def wanted(self) -> bool:
        """Whether the package replays a graph."""
        return self.launches_us > MOST_SHARE * self.run_us

    @property
    def reason(self) -> str:
        """The rule with its numbers, as a sentence."""
        comparison = "over" if self.wanted else "at most"
        run = f"{self.run_us:,.0f}" if self.run_us >= 10 else f"{self.run_us:.2g}"
        return (
            f"{self.launches} launches of {LAUNCH_US:g} us are {comparison} {MOST_SHARE:.0%} of a run, which takes "
            f"{'' if self.measured else 'at least '}{run} us without them"
        )


def graph_replay(calls: Sequence[CallView], kernels: Sequence[KernelView], target: GpuTarget) -> GraphReplay:
    """What the rule says of the layers `calls`, whose kernels are `kernels`."""
    launches = {kernel.symbol: len(kernel.launches) for kernel in kernels}
    return GraphReplay(
        sum(launches[call.symbol] for call in calls),
        sum(_least_us(call, target) for call in calls),
        all(call.provenance.median_us is not None for call in calls),
    )


def _least_us(call: CallView, target: GpuTarget) -> float:
    if call.provenance.median_us is not None:
        return call.provenance.median_us
    computing = call.macs / (target.multiprocessors * _MACS_PER_US)
    return max(computing, call.nbytes / (target.memory_gb_per_s * 1000))


class CudaContent:
    """See `PackageContent`."""

    installs = True
    makefile = "cuda/Makefile.j2"
    cmake = "cuda/CMakeLists.txt.j2"
    suffixes: tuple[str, ...] = (".cu", ".S")

    def tuned_by(self, target: BoardKind) -> str:
        """Return the command of a search in rounds."""
        del target
        return "edgetune tune --via bundle"

    def placement(self, asked: Placement | None) -> Placement | None:
        """Return "binary": the weights are one image, which is copied to the device."""
        del asked
        return "binary"

    def workspace_bytes(self, program: Program, plan: MemoryPlan, weights: Weights, threads: int) -> int:
        """Return the bytes of device memory."""
        del threads
        return device_memory(program, plan, weights).nbytes

    def flags(self, target: BoardKind) -> CompilerFlags:
        """Return the flags of nvcc as those of the kernels, those of the C compiler for all else."""
        gpu = _gpu(target)
        arch = f"-gencode arch=compute_{gpu.compute_capability},code={gpu.arch}"
        flags = gpu.compiler.nvccflags
        return CompilerFlags(gpu.compiler.cflags, (), flags, (), (*flags, arch), ())

    def cpu(self, target: BoardKind) -> CpuChecks | None:
        """Return None."""
        del target
        return None

    def files(self, api: Interface, weights: Weights, vectors: Vectors, image: ProgramImage) -> tuple[PackageFile, ...]:
        """Return header, kernels, host code, weights, self-test, and what stands in for CUDA's runtime on a CPU."""
        p = api.prefix
        return (
            PackageFile(f"include/{p}.h", "cuda/public.h.j2"),
            PackageFile(f"src/{p}.cu", "cuda/run.cu.j2"),
            PackageFile(f"src/{p}_kernels.h", "cuda/kernels.h.j2"),
            PackageFile(f"src/{p}_kernels.cu", "cuda/kernels.cu.j2"),
            *vector_files(api, vectors),
            *weight_files(api, weights),
            *(PackageFile(f"test/cpu/{name}", f"cuda/{name}") for name in _STAND_INS),
            PackageFile(f"test/{p}_selftest.c", "cuda/selftest.c.j2"),
            PackageFile(f"test/{p}_bench.cu", "cuda/bench.cu.j2"),
            *image.files,
            PackageFile("README.md", "cuda/README.md.j2"),
            PackageFile("LICENSE", "core/LICENSE"),
        )

    def words(
        self,
        program: Program,
        plan: MemoryPlan,
        weights: Weights,
        target: BoardKind,
        sources: Sequence[str],
        views: Views,
    ) -> Mapping[str, object]:
        """Return the plan of the device memory, how launches are replayed, and the objects by their compiler."""
        replay = graph_replay(views.calls, views.kernels, _gpu(target))
        cuda = [name for name in sources if name.endswith(".cu")]
        return {
            "libraries": "-lcudart -lstdc++",
            "language": "in CUDA",
            "replay": replay,
            "smallest": min((nbytes for kernel in views.kernels for nbytes in kernel.elements), default=ALIGNMENT),
            "timed": _timed(views),
            "most_launches": max((len(kernel.launches) for kernel in views.kernels), default=1),
            "context_words": _CONTEXT_WORDS + len(program.inputs) + len(program.outputs) + replay.launches,
            "device": device_memory(program, plan, weights),
            "device_objects": [f"{name.removesuffix('.cu')}.o" for name in cuda],
            "other_objects": [f"{name.rsplit('.', 1)[0]}.o" for name in sources if name not in cuda],
        }

    def code_size(
        self, folder: Path, prefix: str, target: BoardKind, objects: Path, sources: Sequence[str]
    ) -> CodeSize | None:
        """Compile the kernels where there is an nvcc, for the target's own architecture. Raises CompileFailed."""
        del sources
        gpu = _gpu(target)
        nvcc = find_nvcc(gpu.compiler.nvcc)
        if nvcc is None:
            return None
        source = f"src/{prefix}_kernels.cu"
        words = [f"-arch={gpu.arch}", *self.flags(target).kernel, "-ccbin", gpu.compiler.cxx]
        made = objects.resolve() / f"{prefix}_kernels.cubin"
        found = compile_cubin(nvcc, [*words, "-Iinclude", "-Isrc", source], folder, made)
        if isinstance(found, str):
            raise compile_failure("nvcc", source, found, objects)
        version = f"{gpu.compiler.nvcc} {nvcc_version(nvcc)}, {gpu.arch}"
        return CodeSize(version, code_bytes(found.data), 0, (), found.kernels)

    def manifest(self, target: BoardKind, threads: int) -> dict[str, object]:
        """Return its facts but those that affect nothing, and where `verify` runs it without a GPU."""
        del threads
        unused = {"defaults", "reach", "emulated", "description", "clock", "clock_mhz"}
        return {**target.model_dump(mode="json", exclude=unused), "instead": ON_CPU}

    def made_for(self, target: BoardKind) -> str:
        """Return its description."""
        return target.description


def _gpu(target: BoardKind) -> GpuTarget:
    if not isinstance(target, GpuTarget):
        raise KernelFailed(f"'{target.name}' is no GPU, and a CUDA package needs one: report this")
    return target


@dataclass(frozen=True)
class TimedKernel:
    """One kernel for the benchmark: its arguments as C types with offsets in memory of `nbytes`."""

    number: int
    symbol: str
    operands: tuple[tuple[str, int], ...]
    nbytes: int


def _timed(views: Views) -> list[TimedKernel]:
    types = {call.symbol: call.types for call in views.calls}
    found = []
    for number, kernel in enumerate(views.kernels):
        ends = list(accumulate(_padded(nbytes) for nbytes in kernel.memory))
        operands = tuple(zip(types[kernel.symbol], [0, *ends], strict=False))
        found.append(TimedKernel(number, kernel.symbol, operands, max([ALIGNMENT, *ends])))
    return found


CUDA_CONTENT = CudaContent()
