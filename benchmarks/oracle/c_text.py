"""The normal form of a C text: equal for two texts that differ in names, comments and blanks alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edgetune.config.naming import RESERVED

_TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|[A-Za-z_]\w*"
    r"|0[xX][\da-fA-F.]+(?:[pP][+-]?\d+)?\w*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*|\s+|.",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_VECTOR_TYPE = re.compile(r"(?:bf|[fiu])\d+x\d+u?|boolx\d+u?")
_MACRO = re.compile(r"[A-Z][A-Z0-9_]*")
_OPENING, _CLOSING = frozenset("({["), frozenset(")}]")
_PREFIX = re.compile(r"^[A-Za-z]\w*?__")


def normal_form(text: str) -> str:
    """`text` with numbers for the names of its functions, parameters and variables, in the order of their appearance.

    Keywords, types, macros, literals and the functions that it calls stay: two texts that call other functions are not
    equal apart from names. The prefix of a package before a called function (`PREFIX__name`) is left out.
    """
    tokens = list(_tokens(text))
    defined = set(_defined(tokens))
    numbers: dict[str, str] = {}
    found = []
    for token, after in zip(tokens, [*tokens[1:], ""], strict=True):
        if not _NAME.fullmatch(token) or _is_fixed(token):
            found.append(token)
        elif after == "(" and token not in defined:
            found.append(_PREFIX.sub("", token))
        else:
            found.append(numbers.setdefault(token, f"n{len(numbers)}"))
    return " ".join(found)


def _tokens(text: str) -> Iterator[str]:
    for token in _TOKEN.findall(text):
        if not token.isspace() and not token.startswith(("/*", "//")):
            yield token


def _is_fixed(name: str) -> bool:
    """Whether a name means the same in every text."""
    return name in RESERVED or bool(_VECTOR_TYPE.fullmatch(name)) or bool(_MACRO.fullmatch(name))


def _defined(tokens: list[str]) -> Iterator[str]:
    """The functions that a text defines: names between a type and a parenthesis, outside of all braces."""
    depth = 0
    for before, name, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        depth += (name in _OPENING) - (name in _CLOSING)
        of_type = before == "*" or bool(_NAME.fullmatch(before))
        if not depth and of_type and after == "(" and _NAME.fullmatch(name) and not _is_fixed(name):
            yield name
