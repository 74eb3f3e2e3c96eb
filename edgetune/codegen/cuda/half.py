"""Elements of 16 bits in CUDA: their types in memory, and the functions that convert them (CUDA Math API)."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.codegen.dtypes import Element, storage_type
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.text import Code, Text, called

_TYPES = {
    "f16": ("half", "__half2float", "__float2half", "cuda_fp16.h"),
    "bf16": ("__nv_bfloat16", "__bfloat162float", "__float2bfloat16", "cuda_bf16.h"),
}


def cuda_type(of: Element) -> str:
    """The type of an element in memory."""
    return _TYPES[of.short][0] if of.half else storage_type(of, has_float16=False)


def widened(of: Element, value: Code | Text) -> Text:
    """An element of 16 bits as float: exact."""
    return called(_TYPES[of.short][1], value)


def rounded(of: Element, value: Text) -> Text:
    """The element of 16 bits nearest to a float, half to even."""
    return called(_TYPES[of.short][2], value)


def headers(sources: Sequence[KernelSource]) -> str:
    """The lines that include what some kernels need; the CPU check has them in its cuda_runtime.h.

    Those of fragments are for `edgetune.codegen.cuda.tiles`, those of copies for `edgetune.codegen.cuda.async_copies`.
    """
    types = {operand.c_type for one in sources for launch in one.launches for operand in launch.operands}
    snippets = {snippet.partition(":")[0] for one in sources for snippet in one.preamble}
    found = [header for name, _, _, header in _TYPES.values() if name in types]
    found += ["mma.h"] if "sums_tile" in snippets else []
    found += ["cuda_pipeline_primitives.h"] if "wait_for_copies" in snippets else []
    lines = "".join(f"#include <{header}>\n" for header in found)
    return f"#ifndef CUDA_ON_CPU\n{lines}#endif\n" if lines else ""
