"""Code generation: a scheduled function and a target enter, the C text of one kernel leaves.

Enters: a module of one scheduled PrimFunc and a target. Leaves: the C text of one kernel with its parameters, scratch
and stack needs, the shared preamble, and the packing of its weights. Knows nothing of files, folders, packages, boards
or search.
"""

from edgetune.codegen.compile_unit import kernel_unit, shim
from edgetune.codegen.emit import emit_kernel
from edgetune.codegen.kernel_source import CParam, KernelSource
from edgetune.codegen.packing import PackedLayout, split_packing
from edgetune.codegen.preamble import render_preamble

CODEGEN_VERSION = 29

__all__ = [
    "CODEGEN_VERSION",
    "CParam",
    "KernelSource",
    "PackedLayout",
    "emit_kernel",
    "kernel_unit",
    "render_preamble",
    "shim",
    "split_packing",
]
