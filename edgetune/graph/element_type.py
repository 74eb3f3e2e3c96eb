"""Element types: what passes ask of the type of a tensor or a value, in the place of comparing its name."""

from __future__ import annotations

from tvm import DataType

from edgetune.tvm_types import Expr, TvmBuffer

_BYTE = 8  # bits
_COMPUTED = frozenset({"float32", "float64"})


def type_of(value: Expr | TvmBuffer) -> str:
    """The name of the type of a value, or of the elements of a tensor, such as "float32"."""
    return str(value.ty.dtype)


def is_floating(value: Expr | TvmBuffer) -> bool:
    """Whether C rounds what it computes in a type, so that a pass may add up in another order or divide another way.

    float16 and bfloat16 are types in memory alone: what is loaded of them is computed in float32.
    """
    return type_of(value) in _COMPUTED


def element_bytes(tensor: TvmBuffer) -> int:
    """Bytes of one element in memory; a bool takes one."""
    return int((DataType(type_of(tensor)).bits + _BYTE - 1) // _BYTE)
