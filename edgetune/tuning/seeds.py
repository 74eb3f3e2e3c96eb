"""Random seeds from one number and names, so that each task and round has its own and a rerun has the same."""

from __future__ import annotations

import hashlib

LARGEST_SEED = 2**31 - 1
"""TVM's generators take 1 to this."""


def derive_seed(seed: int, *parts: str | int) -> int:
    """A seed in 1 .. `LARGEST_SEED` that depends on all arguments and nothing else."""
    text = "/".join(map(str, (seed, *parts)))
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8]) % LARGEST_SEED + 1
