"""Backend c-bare-metal: C for boards without operating system; test programs are images that start by themselves.

An image has its own start-up code and linker script, prints by semihosting (ARM, "Semihosting for AArch32 and AArch64")
and runs under a system emulator. It uses no double: on a single-precision FPU each operation would be a library call.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.backends.c_backend import NO_CPU, CBackend
from edgetune.errors import BoardUnavailable
from edgetune.measure.compiler import (
    CompilerCommand,
    CompileResult,
    OnStart,
    build_library,
    relocatable_toolchain_of,
)
from edgetune.package.package_file import PackageFile
from edgetune.package.program_image import ProgramImage
from edgetune.target.board_kind import BoardKind
from edgetune.target.dialect import Dialect
from edgetune.target.newlib import NEWLIB
from edgetune.target.target import KeyFault, Target

if TYPE_CHECKING:
    from edgetune.package.content import PackageContent

_STATIC_BYTES = 512  # variables of newlib and of the self-test: 368 with version 3.3
_STACK_AND_HEAP_BYTES = 4096  # of main, printf and newlib's buffer of stdout
_NO_WAY = (
    "edgetune has no way yet to time candidates without an operating system, except under an emulator ('reach: image')"
)


class CBareMetal(CBackend):
    """See `Backend`."""

    dialect = Dialect("C without double", frozenset({"double"}))
    most_threads: int | None = 1
    joins_attention = True
    loops = True
    transport = "agent"  # of boards with an address, which have packages only: it is not asked
    bundles = ""

    def untimed(self, target: BoardKind) -> str:
        """Return "" where images are emulated; boards with an address cannot be reached yet."""
        return _NO_WAY if target.addressable else ""

    @property
    def content(self) -> PackageContent:
        """Files in C, with advice to search where a search is possible."""
        from edgetune.backends.bare_metal_content import BARE_METAL_CONTENT

        return BARE_METAL_CONTENT

    def target_fault(self, target: BoardKind) -> KeyFault | None:
        """Demand a memory map, and the clock, which the benchmark of a package counts."""
        if not isinstance(target, Target):
            return NO_CPU
        if target.memory_map is None:
            why = f"is '{target.backend}', which links programs by 'memory_map': add that, with 'flash' and 'ram'"
            return KeyFault("backend", why)
        if target.clock_mhz is None:
            why = f"is '{target.backend}', whose benchmark counts the clock: add 'clock_mhz', that of the core in MHz"
            return KeyFault("backend", why)
        return None

    def toolchain(self, target: Target, timeout_s: float) -> CompilerCommand:
        """Return the compiler of the target, after trying it; raises ToolchainMissing and BoardUnavailable."""
        if why := self.untimed(target):
            raise BoardUnavailable(f"board '{target.name}' cannot be tuned: {why}")
        return relocatable_toolchain_of(target, timeout_s)

    def build_candidate(
        self, toolchain: CompilerCommand, unit: Path, shim: Path, library: Path, on_start: OnStart | None = None
    ) -> CompileResult:
        """Build one relocatable object, which its board links into an image; raises DiskFull."""
        return build_library(toolchain, unit, shim, library, on_start)

    def program_image(self, prefix: str, target: BoardKind) -> ProgramImage:
        """Return start-up code and linker script, the same for every `target`."""
        del target
        script = f"test/{prefix}_image.ld"
        return ProgramImage(
            bench="bare_metal/bench.c.j2",
            files=(
                PackageFile(f"test/{prefix}_startup.c", "bare_metal/startup.c.j2"),
                PackageFile(script, "bare_metal/image.ld.j2", {"stack_and_heap_bytes": _STACK_AND_HEAP_BYTES}),
            ),
            objects=(f"{prefix}_startup.o",),
            link_words=(*NEWLIB, f"-Wl,-T,{script}"),
            real="float",
            native=False,
            ram_bytes=_STATIC_BYTES + _STACK_AND_HEAP_BYTES,
        )


BACKEND = CBareMetal()
