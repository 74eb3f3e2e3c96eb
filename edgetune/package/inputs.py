"""Inputs of a package: the compiled model with its golden cases, the device that it is for, and how it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from edgetune.codegen.kernel_source import KernelSource
from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.memory.regions import RegionSize
from edgetune.graph.program import Program
from edgetune.graph.stream import WindowStream
from edgetune.package.constants import Placement
from edgetune.package.content import C_CONTENT, PackageContent
from edgetune.package.flavour import Flavour
from edgetune.package.program_image import HOSTED, ProgramImage
from edgetune.package.provenance import KernelProvenance
from edgetune.target.board_kind import BoardKind


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """A program as C: `sources` and `provenance` hold one entry per kernel of it, in order.

    Every symbol is `kernel_symbol(prefix, kernel)` with the prefix of the package. `packed` holds constants in the
    layout that their kernel reads, by (call index, parameter index); the others come from the program. `preamble` is C
    text for the top of the kernels file. `image` says what the test programs are linked with,
    `content` which files there are.
    """

    program: Program
    sources: Sequence[KernelSource]
    provenance: Sequence[KernelProvenance]
    plan: MemoryPlan
    packed: Mapping[tuple[int, int], np.ndarray] = field(default_factory=dict)
    preamble: str = ""
    image: ProgramImage = HOSTED
    content: PackageContent = C_CONTENT


@dataclass(frozen=True)
class Device:
    """What a package runs on: the target, the most threads of a run, and its memory in bytes (None for no limit).

    `ram` holds the workspace, `flash` weights and code together. Where RAM has several `regions`, the fastest first,
    each has a workspace, and `ram` all of them.
    """

    target: BoardKind
    threads: int = 1
    ram: int | None = None
    flash: int | None = None
    regions: tuple[RegionSize, ...] = ()

    def remedy(self, memory: Literal["ram", "flash"]) -> str:
        """What to do where a package needs more `memory` than there is; a board's own size cannot be raised."""
        size = self.target.memory_sizes.get(memory)
        if size is not None and size == getattr(self, memory):
            return f"it is that of memory_map in target '{self.target.name}', so use a smaller model or a larger board"
        return f"raise memory.{memory} or use a smaller model"


@dataclass(frozen=True)
class PackageOptions:
    """How a package is written, under the C prefix `package_prefix(name)`; without a name, that of the program.

    `flavours` add their files; one of them has the Makefile that `verify` needs. `model_file` is a name without a
    folder. With `weights` None, the size decides between text and binary. `measure` compiles once for code size and
    stack. `version` is major, minor and patch of the package. `stream` is there where a run is a step of a window.
    """

    flavours: Sequence[Flavour]
    name: str | None = None
    model_file: str = ""
    weights: Placement | None = None
    measure: bool = True
    version: tuple[int, int, int] = (1, 0, 0)
    stream: WindowStream | None = None
