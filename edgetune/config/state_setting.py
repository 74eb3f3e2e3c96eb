"""A state as settings state it: the output that an input becomes, and the file of the input's first value.

That is `hn` or `hn:first.npy`. Names may have colons, so a file is what follows the last colon, if
that ends with `.npy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_SUFFIX = ".npy"


def output_and_file(stated: str) -> tuple[str, Path | None]:
    """The output, and the file with the first value, if there is one."""
    output, _, file = stated.rpartition(":")
    return (output, Path(file)) if output and file.endswith(_SUFFIX) else (stated, None)


def with_files_in(folder: Path, states: Mapping[str, str]) -> dict[str, str]:
    """The same states, whose files are relative to `folder`."""
    found = {}
    for name, stated in states.items():
        output, file = output_and_file(stated)
        found[name] = stated if file is None else f"{output}:{folder / file}"
    return found
