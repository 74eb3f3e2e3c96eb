"""Compilation units: a kernel as a C file with exactly the text that ships, and a shim through which a runner calls."""

from __future__ import annotations

from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.preamble import render_preamble
from edgetune.target.target import Target

INCLUDES = "#include <stddef.h>\n#include <stdint.h>\n"


def kernel_unit(source: KernelSource, target: Target, prefix: str) -> str:
    """A C file that defines one kernel: includes, preamble, definition. Its SHA-256 identifies a candidate.

    Candidates have one `prefix`, whatever that of their package is, so a record holds for a kernel in any package.
    """
    definition = with_prefix(source.definition, prefix)
    parts = [INCLUDES, render_preamble(source.preamble, target, prefix), f"{source.prototype};\n", definition]
    return "\n".join(part for part in parts if part)


def shim(source: KernelSource, prefix: str) -> str:
    """A C file that defines `void edgetune_call(void *const *buffers)`: buffers in parameter order, scratch last."""
    arguments = [
        f"({'' if param.writable else 'const '}{param.c_type} *)buffers[{number}]"
        for number, param in enumerate(source.params)
    ]
    if source.scratch_bytes:
        arguments.append(f"(unsigned char *)buffers[{len(source.params)}]")
    return (
        f"/* Calls one kernel of {prefix}. */\n{INCLUDES}\n{source.prototype};\n"
        f"void edgetune_call(void *const *buffers);\n\n"
        f"void edgetune_call(void *const *buffers)\n{{\n    {source.symbol}({', '.join(arguments)});\n}}\n"
    )
