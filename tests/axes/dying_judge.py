"""A judge that ends its process at one case, as a fault inside of TVM does."""

from __future__ import annotations

import os
from pathlib import Path


def judge(name: str, _folder: Path) -> tuple[str, str]:
    """`right`, except for the case `dies`."""
    if name == "dies":
        os.abort()
    return "right", ""
