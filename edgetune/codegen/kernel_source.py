"""The result of code generation: one kernel as C text, with all facts that its callers need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetune.codegen.dtypes import element


@dataclass(frozen=True)
class CParam:
    """One pointer parameter of a C kernel; `shape` is as scheduled, which for weights means packed.

    `alignment` in bytes is that of one element, or of a vector where the kernel needs that. A `shared` parameter may
    point to the same memory as another shared one: an operand and the output that overwrites it. A `table` has the
    factors of each scale (see `edgetune.codegen.scale_tables`).
    """

    name: str
    c_type: str
    shape: tuple[int, ...]
    dtype: str
    writable: bool
    alignment: int
    shared: bool = False
    table: Literal["", "table", "byte table"] = ""

    @property
    def element_bytes(self) -> int:
        """Size of one element."""
        return element(self.dtype).bytes


@dataclass(frozen=True)
class LaunchOperand:
    """A pointer that a launch passes: parameter `param`, or (None) the scratch from byte `offset` on, as `c_type`."""

    param: int | None
    offset: int
    c_type: str
    writable: bool


@dataclass(frozen=True)
class Launch:
    """One launch of a GPU kernel: blocks and threads of a block along x, y and z, and bytes of dynamic shared memory.

    `shared_bytes` counts the kernel's own arrays in shared memory, which need not be asked for.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_bytes: int
    shared_bytes: int
    operands: tuple[LaunchOperand, ...]


@dataclass(frozen=True)
class KernelSource:
    """C text of one kernel.

    `preamble` names the shared snippets (types, maths functions) that the text needs: see `render_preamble`. Names of
    functions among them are marked in `definition`: see `edgetune.codegen.package_names`.
    `scratch_bytes` > 0 means a last parameter `unsigned char *restrict scratch`, aligned to 64 bytes. `local_bytes` is
    the stack size of the kernel's own arrays. `workers` > 1 means that many threads share its loops, each with its part
    of `scratch_bytes`; after all other parameters comes the thread pool (see `edgetune.codegen.parallel_kernel`).
    `launches` are those of a GPU, in order: `definition` then holds their kernels, and `prototype` is that of the host
    function which launches them. The scratch lies between them. `floats` tells whether it computes floats.
    `instructions` are estimated for a run by one thread; 0 where nothing is.
    """

    symbol: str
    prototype: str
    definition: str
    preamble: frozenset[str]
    params: tuple[CParam, ...]
    scratch_bytes: int
    local_bytes: int
    workers: int = 1
    launches: tuple[Launch, ...] = ()
    floats: bool = False
    instructions: float = 0.0
