"""Random seeds from one number and names, so that each task and round has its own and a rerun has the same."""

from __future__ import annotations

import hashlib


def derive_seed(seed: int, *parts: str | int) -> int:
    """A seed in 1 .. 2**31 - 1 (what TVM's generators take) that depends on all arguments and nothing else."""
    text = "/".join(map(str, (seed, *parts)))
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8]) % (2**31 - 1) + 1
