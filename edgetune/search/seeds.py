"""Seed derivation: random seeds from one number and names, different for each task and round, equal in a rerun."""

from __future__ import annotations

import hashlib

LARGEST_SEED = 2**31 - 1
"""TVM's generators accept 1 to this."""


def derive_seed(seed: int, *parts: str | int) -> int:
    """A seed in 1 .. `LARGEST_SEED` that depends on all arguments and on nothing else."""
    text = "/".join(map(str, (seed, *parts)))
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8]) % LARGEST_SEED + 1
