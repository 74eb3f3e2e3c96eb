"""Safe text for C, Markdown and assembler, and exact C literals for numbers and arrays."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator

import numpy as np

from edgetune.errors import UnsupportedOperator

# numpy dtype name -> (C type of one element, name in the self-test). Formats that C lacks are stored as their bits.
_ELEMENTS = {
    "float32": ("float", "F32"),
    "float64": ("double", "F64"),
    "float16": ("uint16_t", "F16"),
    "bfloat16": ("uint16_t", "BF16"),
    "int8": ("int8_t", "I8"),
    "int16": ("int16_t", "I16"),
    "int32": ("int32_t", "I32"),
    "int64": ("int64_t", "I64"),
    "uint8": ("uint8_t", "U8"),
    "uint16": ("uint16_t", "U16"),
    "uint32": ("uint32_t", "U32"),
    "uint64": ("uint64_t", "U64"),
    "bool": ("uint8_t", "BOOL"),
}
_LINE = 110


def c_type(dtype: str) -> str:
    """Return the C type that holds one element of a numpy dtype name in public headers and in weights.

    float16 and bfloat16 are `uint16_t` (their bits), bool is `uint8_t` (0 or 1). Raises UnsupportedOperator.
    """
    return _element(dtype)[0]


def element_type(dtype: str) -> str:
    """Return the self-test's name for a numpy dtype name."""
    return _element(dtype)[1]


def _element(dtype: str) -> tuple[str, str]:
    if dtype not in _ELEMENTS:
        known = ", ".join(_ELEMENTS)
        raise UnsupportedOperator(
            f"a tensor has the element type {dtype}, which C packages do not support: use one of {known}"
        )
    return _ELEMENTS[dtype]


def comment(text: str, limit: int | None = 96) -> str:
    """Return `text` for a C block comment: one line of printable ASCII, without escapes or the end of a comment.

    Cut to `limit` characters; None means no limit.
    """
    flat = "".join(char if " " <= char <= "~" and char != "\\" else "?" for char in " ".join(text.split()))
    flat = re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)|(?<=\?)(?=\?)", " ", flat)
    return flat if limit is None or len(flat) <= limit else f"{flat[: limit - 4]} ..."


def string(text: str, limit: int | None = 200) -> str:
    """Return `text` as a C string literal with quotes: UTF-8, with octal escapes for all special characters.

    Cut to `limit` bytes; None means no limit.
    """
    data = text.encode("utf-8", "replace")[:limit]
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?%' else f"\\{byte:03o}" for byte in data)
    return f'"{"".join(plain)}"'


def markdown(text: str, limit: int | None = 96) -> str:
    """Return `text` as one line that Markdown displays literally, also in a table; `limit` as for `comment`."""
    flat = " ".join(text.split())
    flat = "".join(char if char.isprintable() else "?" for char in flat)
    flat = flat if limit is None or len(flat) <= limit else f"{flat[: limit - 4]} ..."
    return re.sub(r"([\\`*_{}\[\]<>#|!~&])", r"\\\1", flat)


def shape(dimensions: Iterable[int]) -> str:
    """Return a shape as `1x3x224x224`, `scalar` for rank 0."""
    return "x".join(str(extent) for extent in dimensions) or "scalar"


def real(value: float, suffix: str = "") -> str:
    """Return a float as an exact C literal in hex; `suffix` is "f" for float."""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    mantissa, exponent = value.hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}{suffix}"


def _int64(value: int) -> str:
    return "(-9223372036854775807LL - 1)" if value == -(2**63) else f"{value}LL"


def literals(array: np.ndarray) -> list[str]:
    """Return the elements of `array` in C order as exact C literals: hex floats, decimal integers."""
    flat = np.ascontiguousarray(array).reshape(-1)
    dtype = str(flat.dtype)
    if dtype == "float32":
        return [real(value, "f") for value in flat.tolist()]
    if dtype == "float64":
        return [real(value, "") for value in flat.tolist()]
    if dtype in {"float16", "bfloat16"}:
        return [f"0x{value:04x}" for value in flat.view(np.uint16).tolist()]
    if dtype == "int64":
        return [_int64(value) for value in flat.tolist()]
    if dtype in {"uint32", "uint64"}:
        suffix = "u" if dtype == "uint32" else "ULL"
        return [f"{value}{suffix}" for value in flat.tolist()]
    return [str(int(value)) for value in flat.tolist()]


def _lines(words: Iterable[str]) -> Iterator[str]:
    line = "   "
    for word in words:
        if len(line) + len(word) + 2 > _LINE:
            yield line
            line = "   "
        line += f" {word},"
    yield line


def initializer(array: np.ndarray) -> str:
    """Return the body of a C array initialiser, without braces; an empty array gives one zero, as C has none."""
    return "\n".join(_lines(literals(array) or ["0"]))


COLUMNS = 120
_TITLE = re.compile(r"( *)\* (\w+: +)?")
_WHOLE = re.compile(r"( *)/\* (.*?)( \*/)?")


def in_columns(text: str, columns: int = COLUMNS) -> str:
    """`text` with lines of at most `columns` columns, but for those of the preprocessor and those with a string."""
    return "\n".join(part for line in text.split("\n") for part in _parts(line, columns))


def _parts(line: str, columns: int) -> list[str]:
    from edgetune.codegen.line_breaks import break_line  # imports TVM

    if len(line) <= columns:
        return [line]
    if found := _WHOLE.fullmatch(line):
        indent, words, end = found.groups()
        return _wrapped(words + (end or ""), f"{indent}/* ", f"{indent} * ", columns)
    if found := _TITLE.match(line):
        begin = f"{found[1]}* "
        title = found[2] or ""
        return _wrapped(line[found.end() :], begin + title, begin + " " * len(title), columns)
    return break_line(line, columns)


def _wrapped(words: str, first: str, others: str, columns: int) -> list[str]:
    return textwrap.wrap(
        words,
        columns,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
