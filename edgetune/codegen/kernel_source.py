"""The result of code generation: one kernel as C text, with all facts that its callers need."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CParam:
    """One pointer parameter of a C kernel; `shape` is as scheduled, which for weights means packed.

    `alignment` is that of one element in bytes, which is also its size. A `shared` parameter may point to the same
    memory as another shared one: an operand and the output that overwrites it.
    """

    name: str
    c_type: str
    shape: tuple[int, ...]
    dtype: str
    writable: bool
    alignment: int
    shared: bool = False


@dataclass(frozen=True)
class KernelSource:
    """C text of one kernel.

    `preamble` names the shared snippets (types, maths functions) that the text needs: see `render_preamble`. Names of
    functions among them are marked in `definition`: see `edgetune.codegen.package_names`.
    `scratch_bytes` > 0 means a last parameter `unsigned char *restrict scratch`, aligned to 64 bytes. `local_bytes` is
    the stack size of the kernel's own arrays. `workers` > 1 means that many threads share its loops, each with its part
    of `scratch_bytes`; after all other parameters comes the thread pool (see `edgetune.codegen.parallel_kernel`).
    """

    symbol: str
    prototype: str
    definition: str
    preamble: frozenset[str]
    params: tuple[CParam, ...]
    scratch_bytes: int
    local_bytes: int
    workers: int = 1
