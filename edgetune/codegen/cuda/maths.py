"""CUDA preamble: the functions that kernels name, as device functions, and CUDA's names for compiler built-ins.

Transcendental functions are those of CUDA's mathematics library (CUDA C++ Programming Guide, "Mathematical Functions":
expf, logf, tanhf and erff are within 2 ULP). All others have the text that C packages have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from edgetune.codegen.cuda.async_copies import SNIPPETS as COPY_SNIPPETS
from edgetune.codegen.cuda.async_copies import copy_functions
from edgetune.codegen.cuda.tiles import SNIPPETS as TILE_SNIPPETS
from edgetune.codegen.cuda.tiles import tile_functions
from edgetune.codegen.cuda.warp_reduction import SNIPPETS, warp_function
from edgetune.codegen.intrinsics import POLYNOMIALS
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.scalar_snippets import scalar_snippet
from edgetune.errors import KernelFailed

_WORDS = """
alignas alignof and and_eq asm bitand bitor catch char8_t char16_t char32_t class compl concept const_cast consteval
constexpr constinit co_await co_return co_yield decltype delete dynamic_cast explicit export false friend mutable
namespace new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast requires
static_assert static_cast template this thread_local throw try typeid typename using virtual wchar_t xor xor_eq
float2 float4 int2 int4 dim3 warpsize clock assert
"""
RESERVED = tuple(_WORDS.split())
"""Words that name nothing in CUDA text, besides those that name nothing in C."""

_DYNAMIC_SHARED = """/* The shared memory that a launch asks for; the CPU check has its own. */
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif
"""
_DYNAMIC_TILES = """/* The same for tiles of tensor cores, whose addresses are multiples of 32. */
#ifdef CUDA_ON_CPU
#define DYNAMIC_TILES(name) DYNAMIC_SHARED(name)
#else
#define DYNAMIC_TILES(name) extern __shared__ __align__(32) unsigned char name[]
#endif
"""
_BUILTIN = re.compile(r"__builtin_(\w+)")
_NAMES = {"popcountll": "__popcll", "clzll": "__clzll"}
_QUALIFIER = "static inline "
_DEVICE = "static __device__ __forceinline__ "


def in_device_code(text: str) -> str:
    """`text` with the compiler's built-in functions under the names that device code has for them."""
    text = text.replace("__builtin_inff()", "INFINITY").replace("__builtin_inf()", "(double)INFINITY")
    return _BUILTIN.sub(lambda match: _NAMES.get(match[1], match[1]), text)


def render_device_preamble(names: Iterable[str], prefix: str) -> str:
    """CUDA text of the snippets `names`, in a fixed order; includes nothing. KernelFailed for an unknown one."""
    text = "".join(_text(name) for name in sorted(set(names)))
    heading = f"/* Functions that the kernels of {prefix} use. */\n"
    return heading + with_prefix(in_device_code(text), prefix) if text else ""


def _text(snippet: str) -> str:
    kind, _, rest = snippet.partition(":")
    if kind in POLYNOMIALS and rest == "f32":
        body = "1.0f / (1.0f + expf(-x))" if kind == "sigmoid" else f"{kind}f(x)"
        return f"{_DEVICE}float @{kind}_f32(float x) {{ return {body}; }}\n"
    if kind == "dynamic_shared":
        return _DYNAMIC_SHARED
    if kind == "dynamic_tiles":
        return _DYNAMIC_TILES
    if kind in SNIPPETS:
        return warp_function(kind, rest)
    if kind in COPY_SNIPPETS:
        return copy_functions(kind, rest)
    if kind in TILE_SNIPPETS:
        return tile_functions(kind, rest)
    text = scalar_snippet(kind, rest, has_float16=False)
    if "vector_size" in text:
        raise KernelFailed(f"the CUDA printer has no snippet {snippet}")
    return text.replace(_QUALIFIER, _DEVICE)
