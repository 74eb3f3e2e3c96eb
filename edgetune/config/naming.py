"""The name of a package: a C identifier made from whatever the model file is called."""

from __future__ import annotations

import re

# A package named like one of these would shadow <name.h> or collide with what libc and the runtime export.
_TAKEN = re.compile(
    r"assert|complex|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdalign|"
    r"stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|"
    r"uchar|wchar|wctype|unistd|pthread|sched|main|test|lib|src|include",
)
_LONGEST = 48


def package_name(stem: str) -> str:
    """Make a lower-case C identifier of ``stem`` (a file name without its suffix), never empty.

    ``"MobileNet V2-1.0"`` becomes ``"mobilenet_v2_1_0"``, ``"2net"`` becomes ``"model_2net"``.
    """
    name = re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")[:_LONGEST].strip("_")
    if not name:
        return "model"
    return name if name[0].isalpha() and not _TAKEN.fullmatch(name) else f"model_{name}"


def is_package_name(name: str) -> bool:
    """Tell whether ``name`` may be used as it is."""
    return package_name(name) == name.lower() and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None
