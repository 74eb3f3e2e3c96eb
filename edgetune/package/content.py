"""Package contents: what differs between packages in C and in CUDA: their files, flags and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.program import Program
from edgetune.package.calls import CallView, KernelView
from edgetune.package.constants import Placement, Weights
from edgetune.package.core_files import core_files
from edgetune.package.flags import CompilerFlags, split_flags
from edgetune.package.interface import Interface, workspace_bytes
from edgetune.package.native import make_words
from edgetune.package.package_file import PackageFile
from edgetune.package.program_image import ProgramImage
from edgetune.package.size import CodeSize, measure_code
from edgetune.package.vectors import Vectors
from edgetune.target.board_kind import BoardKind
from edgetune.target.isa.cpu_features import CpuChecks
from edgetune.target.target import Target, with_cpu


@dataclass(frozen=True)
class Views:
    """The layers of a package in their order, and the kernels that they call."""

    calls: Sequence[CallView]
    kernels: Sequence[KernelView]


class PackageContent(Protocol):
    """The content of the packages of a backend; `makefile` and `cmake` are templates ("" where there is none).

    `suffixes` are those of the files in src/ that make up the library. `installs`: the Makefile has a goal `install`.
    """

    installs: bool
    makefile: str
    cmake: str
    suffixes: tuple[str, ...]

    def tuned_by(self, target: BoardKind) -> str:
        """Return the command that searches for faster schedules, "" where nothing can be timed."""

    def placement(self, asked: Placement | None) -> Placement | None:
        """Return where weights go that the user wants at `asked` (None: their size decides)."""

    def workspace_bytes(self, program: Program, plan: MemoryPlan, weights: Weights, threads: int) -> int:
        """Return the bytes of the workspace of an instance."""

    def flags(self, target: BoardKind) -> CompilerFlags:
        """Return the flags of the compiler, by the files that they apply to."""

    def cpu(self, target: BoardKind) -> CpuChecks | None:
        """Return what init() checks of the CPU."""

    def files(self, api: Interface, weights: Weights, vectors: Vectors, image: ProgramImage) -> tuple[PackageFile, ...]:
        """Return the files that every package has, whatever builds it."""

    def words(
        self,
        program: Program,
        plan: MemoryPlan,
        weights: Weights,
        target: BoardKind,
        sources: Sequence[str],
        views: Views,
    ) -> Mapping[str, object]:
        """Return the variables of the templates that only such packages have."""

    def code_size(
        self, folder: Path, prefix: str, target: BoardKind, objects: Path, sources: Sequence[str]
    ) -> CodeSize | None:
        """Compile the library in `folder` into `objects`; None without a compiler. Raises CompileFailed."""

    def manifest(self, target: BoardKind, threads: int) -> dict[str, object]:
        """Return what MANIFEST.json says of the target: JSON values of what affects the package."""

    def made_for(self, target: BoardKind) -> str:
        """Return a phrase for the kind of board."""


class CContent:
    """See `PackageContent`: C for a CPU, one workspace that the caller provides."""

    installs = True
    makefile = "make/Makefile.j2"
    cmake = "cmake/CMakeLists.txt.j2"
    suffixes: tuple[str, ...] = (".c", ".S")

    def tuned_by(self, target: BoardKind) -> str:
        """Return the command of a search."""
        del target
        return "edgetune tune"

    def placement(self, asked: Placement | None) -> Placement | None:
        """Return `asked`."""
        return asked

    def workspace_bytes(self, program: Program, plan: MemoryPlan, weights: Weights, threads: int) -> int:
        """Return the bytes of the arena and of the pool of threads."""
        del program, weights
        return workspace_bytes(plan.arena_bytes, threads)

    def flags(self, target: BoardKind) -> CompilerFlags:
        """Return `split_flags`."""
        return split_flags(with_cpu(target))

    def cpu(self, target: BoardKind) -> CpuChecks | None:
        """Return the checks of its instruction set."""
        cpu = with_cpu(target)
        return cpu.instruction_set.cpu_checks(cpu.cpu_checks)

    def files(self, api: Interface, weights: Weights, vectors: Vectors, image: ProgramImage) -> tuple[PackageFile, ...]:
        """Return `core_files`."""
        return core_files(api, weights, vectors, image)

    def words(
        self,
        program: Program,
        plan: MemoryPlan,
        weights: Weights,
        target: BoardKind,
        sources: Sequence[str],
        views: Views,
    ) -> Mapping[str, object]:
        """Return which machines are native, the compiler, and the objects."""
        del program, plan, weights, views
        cpu = with_cpu(target)
        compiler = cpu.compiler
        return {
            "native_machines": make_words(cpu.isa) if compiler.cross_prefix or cpu.emulator else (),
            "cc": "$(CROSS_COMPILE)gcc" if compiler.cc == f"{compiler.cross_prefix}gcc" else compiler.cc,
            "objects": [f"{name.rsplit('.', 1)[0]}.o" for name in sources],
        }

    def code_size(
        self, folder: Path, prefix: str, target: BoardKind, objects: Path, sources: Sequence[str]
    ) -> CodeSize | None:
        """Return `measure_code`."""
        return measure_code(folder, prefix, with_cpu(target), objects, sources)

    def manifest(self, target: BoardKind, threads: int) -> dict[str, object]:
        """Return its facts but those that affect nothing, or only the schedules, which the traces hold."""
        # On one thread there is no handover, and the second cache affects neither the places of tensors nor what
        # waiting threads prefetch.
        unused = {
            "defaults",
            "reach",
            "emulated",
            "description",
            "cores",
            "l1_bytes",
            "memory_gb_per_s",
            "clock_mhz",
            "costs",
            "dot",
        }
        if threads == 1:
            unused |= {"handover_cycles", "l2_bytes"}
        facts = target.model_dump(mode="json", exclude=unused)
        for key in ("clock", "cpu_part", "backend", "memory_map"):
            if facts.get(key) == Target.model_fields[key].default:
                del facts[key]
        return facts

    def made_for(self, target: BoardKind) -> str:
        """Return its CPU where the package is for this machine, else its description."""
        cpu = with_cpu(target)
        native = not cpu.compiler.cross_prefix and not cpu.emulator
        return f"{cpu.isa}, CPU {cpu.cpu}" if native else cpu.description


C_CONTENT = CContent()
