"""What the C printer hands on: one kernel as C text, with everything its callers must know about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CParam:
    """One pointer parameter of a C kernel; `shape` is as scheduled, that is, packed for weights.

    `alignment` is that of one element, in bytes, which is also its size. One that is `shared` may point where another
    shared one does: an operand and the output that is written over it.
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

    `preamble` names the shared snippets (types, maths functions) that the text needs: see `render_preamble`.
    `scratch_bytes` > 0 means a last parameter `unsigned char *restrict scratch`, aligned to 64 bytes.
    `local_bytes` is what the kernel's own arrays take of the stack.
    `workers` > 1: that many threads share its loops, each with its part of `scratch_bytes`, and behind all other
    parameters comes the pool that they wait in (see threaded.py).
    """

    symbol: str
    prototype: str
    definition: str
    preamble: frozenset[str]
    params: tuple[CParam, ...]
    scratch_bytes: int
    local_bytes: int
    workers: int = 1
