"""Package names: types and functions of printed C that get the prefix of their package.

So C files of several packages can be parts of one translation unit. Printed C marks each such name by an `@`, which C
itself does not use: `@exp_f32` stands for `net__exp_f32` in the package `net`.
"""

from __future__ import annotations

import re

_MARKED = re.compile(r"@(\w+)")


def with_prefix(text: str, prefix: str) -> str:
    """`text` with its marked names as names of the package `prefix`."""
    return _MARKED.sub(rf"{prefix}__\1", text)
