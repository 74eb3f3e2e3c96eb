"""Workload hash: identifies a kernel by its structure, so equal work is tuned once and later runs find its records."""

from __future__ import annotations

import hashlib
import re

from edgetune.graph.memoise import memoised
from edgetune.tvm_types import PrimFunc

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|(?<![\w.])[A-Za-z_]\w*')
_LANGUAGE = frozenset(
    (
        *("T", "I", "R", "def", "for", "in", "with", "if", "elif", "else", "while", "range", "return", "and", "or"),
        *("not", "True", "False", "None", "class", "from", "import", "as", "Ptr", "Buffer", "prim_func", "func"),
        *("private", "s_tir"),
    )
)


def canonical_text(function: PrimFunc) -> str:
    """TVMScript of `function` with every variable and buffer renamed v0, v1, ... in order of appearance.

    Block names and string attributes stay: schedule traces refer to blocks by name.
    """
    script: str = function.without_attr("global_symbol").script(show_meta=True)
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        token = match.group()
        if token[0] == '"' or token in _LANGUAGE:
            return token
        return names.setdefault(token, f"v{len(names)}")

    return _TOKEN.sub(rename, script)


@memoised(512)
def workload_hash(function: PrimFunc) -> str:
    """SHA-256 (hex) of `canonical_text`: the same in every process and on every machine for one TVM version."""
    return hashlib.sha256(canonical_text(function).encode()).hexdigest()
