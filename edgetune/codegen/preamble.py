"""What stands once on top of a kernels file: vector types and the snippets that the kernels name, nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from edgetune.codegen import polynomials
from edgetune.codegen.dtypes import by_short, storage_type
from edgetune.codegen.extremes import vector_extreme
from edgetune.codegen.snippets import scalar_snippet
from edgetune.config.target import Target

_CONVERTERS = ("whole", "saturated_i8", "saturated_u8", "saturated_i16", "saturated_u16", "saturated_i32")


def _vector_type(name: str, has_float16: bool) -> str:
    loose = name.endswith("u")
    short, _, lanes = name.rstrip("u").partition("x") if loose else name.partition("x")
    of = by_short(short)
    size = of.bytes * int(lanes)
    more = f", aligned({of.bytes}), may_alias" if loose else ""
    return f"typedef {storage_type(of, has_float16)} {name} __attribute__((vector_size({size}){more}));\n"


def _requirements(snippet: str) -> list[str]:
    """Snippets that must stand before this one, directly."""
    kind, _, rest = snippet.partition(":")
    if kind in polynomials.BODIES and rest != "f64":
        inner = [f"{polynomials.NEEDS[kind]}:{rest}"] if kind in polynomials.NEEDS else []
        bits = polynomials.reinterpretations(kind) if rest == "f32" else []
        return [*bits, f"macros:{rest}", "keep:all", *inner]
    if kind in _CONVERTERS:
        return [f"macros:{rest}"]
    if kind in ("vmax", "vmin"):
        element, _, lanes = rest.partition("x")
        return [f"type:{rest}", f"type:i{by_short(element).bits}x{lanes}"]
    if kind == "macros":
        return [] if rest == "f32" else [f"type:{rest}", f"type:i{rest[1:]}"]
    return []


def _text(snippet: str, has_float16: bool) -> str:
    kind, _, rest = snippet.partition(":")
    if kind == "type":
        return _vector_type(rest, has_float16)
    if kind == "macros":
        return polynomials.macros(rest)
    if kind == "keep":
        return polynomials.KEEP
    if kind in polynomials.BODIES and rest != "f64":
        return polynomials.function(kind, rest)
    if kind in _CONVERTERS:
        return polynomials.converter(kind, rest)
    if kind in ("vmax", "vmin"):
        return vector_extreme(kind[1:], rest)
    return scalar_snippet(kind, rest, has_float16)


def _rank(snippet: str) -> tuple[int, str]:
    kind = snippet.partition(":")[0]
    return (0 if kind == "type" else 1 if kind in ("keep", "macros", "reinterpret") else 2, snippet)


def render_preamble(names: Iterable[str], target: Target, prefix: str) -> str:
    """C text of the snippets `names` and all that they need, in a fixed order; includes nothing.

    Everything in it is a typedef, a macro or a static function, so files of two packages link into one program;
    `prefix` is the package's own, named in the heading. Raises KernelFailed for a name that no snippet has.
    """
    ordered: list[str] = []
    placed: set[str] = set()

    def place(snippet: str) -> None:
        if snippet in placed:
            return
        placed.add(snippet)
        for needed in _requirements(snippet):
            place(needed)
        ordered.append(snippet)

    for snippet in sorted(set(names), key=_rank):
        place(snippet)
    ordered = [s for s in ordered if s.startswith("type:")] + [s for s in ordered if not s.startswith("type:")]
    if not ordered:
        return ""
    heading = f"/* Types and functions that the kernels of {prefix} use. */\n"
    return heading + "".join(_text(snippet, target.has_float16) for snippet in ordered)
