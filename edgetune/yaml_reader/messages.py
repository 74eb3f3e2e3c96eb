"""Error messages for wrong values. Pydantic's own are written for programmers and change with its versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from edgetune.yaml_reader.source import describe

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_UNKNOWN = "must be something else"


def complaint(item: ErrorDetails) -> str:
    """Return a predicate for the value of the error `item`, such as "must be a whole number, not 'x' (text)"."""
    kind, context = item["type"], item.get("ctx", {})
    if kind in {"value_error", "assertion_error"}:  # our own validators have messages for the user
        return str(context.get("error", _UNKNOWN))
    if kind == "missing":
        return "is missing: add it"
    if kind == "json_invalid":
        return "is not JSON" + (": it is cut short" if "EOF" in str(context.get("error")) else "")
    return f"{requirement(kind, context)}, not {describe(item.get('input'))}"


def requirement(kind: str, context: Mapping[str, Any]) -> str:
    """Return the requirement that an error of `kind` violates, with the limits in `context`."""
    limit = _LIMITS.get(kind)
    if limit is not None:
        return limit(context)
    return next((words for start, words in _KINDS if kind.startswith(start)), _UNKNOWN)


def _number(context: Mapping[str, Any], key: str) -> str:
    value = context.get(key)
    return f"{value:g}" if isinstance(value, float) and value < 1e6 else str(value)  # noqa: PLR2004 (as it was written)


def _length(key: str, comparison: str, one: str, several: str) -> Callable[[Mapping[str, Any]], str]:
    def words(context: Mapping[str, Any]) -> str:
        count = context.get(key)
        return f"must have {comparison} {count} {one if count == 1 else several}"

    return words


_LIMITS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "literal_error": lambda c: f"must be {c.get('expected', 'one of a few words')}",
    "enum": lambda c: f"must be {c.get('expected', 'one of a few words')}",
    "greater_than": lambda c: f"must be more than {_number(c, 'gt')}",
    "greater_than_equal": lambda c: f"must be at least {_number(c, 'ge')}",
    "less_than": lambda c: f"must be less than {_number(c, 'lt')}",
    "less_than_equal": lambda c: f"must be at most {_number(c, 'le')}",
    "multiple_of": lambda c: f"must be a multiple of {_number(c, 'multiple_of')}",
    "too_short": _length("min_length", "at least", "entry", "entries"),
    "too_long": _length("max_length", "at most", "entry", "entries"),
    "string_too_short": _length("min_length", "at least", "character", "characters"),
    "string_too_long": _length("max_length", "at most", "character", "characters"),
    "bytes_too_short": _length("min_length", "at least", "character", "characters"),
    "bytes_too_long": _length("max_length", "at most", "character", "characters"),
    "string_pattern_mismatch": lambda c: f"must be text of the form {c.get('pattern', '')}",
    "int_from_float": lambda _: "must be a whole number",
    "finite_number": lambda _: "must be a finite number",
    "extra_forbidden": lambda _: "is not known",
    "string_unicode": lambda _: "must be text in UTF-8",
    "mapping_type": lambda _: "must be a group of keys",
    "dict_type": lambda _: "must be a group of keys",
}

# Maps a prefix of pydantic's error name to the requirement.
_KINDS = (
    ("int_", "must be a whole number"),
    ("float_", "must be a number"),
    ("decimal_", "must be a number"),
    ("complex_", "must be a number"),
    ("bool_", "must be true or false"),
    ("string_", "must be text (quote it)"),
    ("bytes_", "must be text (quote it)"),
    ("none_required", "must be left empty"),
    ("model_", "must be a group of keys"),
    ("dataclass_", "must be a group of keys"),
    *((name, "must be a list") for name in ("tuple_", "list_", "set_", "frozen_set_", "iterable_", "arguments_type")),
    *((name, "must be a date or a time") for name in ("date", "time", "timezone")),
)
