"""Element types: the C name, storage type and value type of each TIR dtype.

A value is computed in its *value* type and kept in memory in its *storage* type. They differ for float16 and bfloat16
(computed as float, rounded where TIR casts or stores) and for bool (an int 0 or 1, stored as uint8_t).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from edgetune.errors import KernelFailed
from edgetune.tvm_types import PrimType

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True)
class Element:
    """One element type. `short` is its part in names of vector types and snippets: f32, i8, u64, bool."""

    dtype: str
    short: str
    kind: Kind
    bits: int
    value: str

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return max(self.bits, 8) // 8

    @property
    def value_bits(self) -> int:
        """Bits of the value type, which is the element type of its vectors."""
        return 32 if self.kind == "float" and self.bits == 16 else max(self.bits, 8)

    @property
    def value_short(self) -> str:
        """Short name of the value type; for bool, that of its storage type."""
        return {"f16": "f32", "bf16": "f32", "bool": "u8"}.get(self.short, self.short)

    @property
    def half(self) -> bool:
        """Whether loads and stores convert: float16 and bfloat16."""
        return self.kind == "float" and self.bits == 16


_FLOATS = {
    "float16": Element("float16", "f16", "float", 16, "float"),
    "bfloat16": Element("bfloat16", "bf16", "float", 16, "float"),
    "float32": Element("float32", "f32", "float", 32, "float"),
    "float64": Element("float64", "f64", "float", 64, "double"),
}


@cache
def element(dtype: str) -> Element:
    """The element type of a TIR dtype name without lanes, such as "int8"; KernelFailed for types C lacks."""
    if dtype in _FLOATS:
        return _FLOATS[dtype]
    if dtype in ("bool", "uint1"):
        return Element("bool", "bool", "bool", 1, "int")
    for kind, letter, text in (("uint", "u", "uint{}_t"), ("int", "i", "int{}_t")):
        digits = dtype.removeprefix(kind)
        if dtype.startswith(kind) and digits in ("8", "16", "32", "64"):
            return Element(
                dtype, letter + digits, "uint" if kind == "uint" else "int", int(digits), text.format(digits)
            )
    raise KernelFailed(f"the C printer has no type for dtype {dtype!r}; cast the model to a common dtype")


@cache
def by_short(short: str) -> Element:
    """The element type whose short name is `short`."""
    if short == "bool":
        return element("bool")
    word = {"f": "float", "i": "int", "u": "uint", "b": "bfloat"}[short[0]]
    return element(word + short.lstrip("bfiu"))


def storage_type(of: Element, has_float16: bool) -> str:
    """C type of one element in memory; float16 is uint16_t if the compiler has no `_Float16`."""
    if of.short == "f16":
        return "_Float16" if has_float16 else "uint16_t"
    if of.short == "bf16":
        return "uint16_t"
    return "uint8_t" if of.kind == "bool" else of.value


@cache
def _split(text: str) -> tuple[Element, int]:
    name, _, lanes = text.partition("x")
    return element(name), int(lanes) if lanes else 1


def element_and_lanes(primitive: PrimType) -> tuple[Element, int]:
    """Element type and lanes of a TIR PrimType such as `float32x16`."""
    return _split(str(primitive.dtype))
