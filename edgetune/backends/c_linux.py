"""Backend c-linux: C for boards with Linux, where candidates are shared libraries and programs are processes."""

from __future__ import annotations

from pathlib import Path

from edgetune.backends.c_backend import NO_CPU, CBackend
from edgetune.measure.compiler import CompilerCommand, CompileResult, OnStart, build_library, toolchain_of
from edgetune.package.program_image import HOSTED, ProgramImage
from edgetune.target.board_kind import BoardKind
from edgetune.target.dialect import C, Dialect
from edgetune.target.target import KeyFault, Target


class CLinux(CBackend):
    """See `Backend`."""

    dialect: Dialect = C
    most_threads: int | None = None
    joins_attention = True
    loops = True
    transport = "agent"
    bundles = "libraries"

    def target_fault(self, target: BoardKind) -> KeyFault | None:
        """Refuse a GPU."""
        return None if isinstance(target, Target) else NO_CPU

    def toolchain(self, target: Target, timeout_s: float) -> CompilerCommand:
        """Return the compiler of the target; raises ToolchainMissing."""
        return toolchain_of(target, timeout_s)

    def build_candidate(
        self, toolchain: CompilerCommand, unit: Path, shim: Path, library: Path, on_start: OnStart | None = None
    ) -> CompileResult:
        """Build a shared library; raises DiskFull."""
        return build_library(toolchain, unit, shim, library, on_start)

    def program_image(self, prefix: str, target: BoardKind) -> ProgramImage:
        """Return `HOSTED`."""
        del prefix, target
        return HOSTED


BACKEND = CLinux()
