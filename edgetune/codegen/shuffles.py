"""Shuffles: of which types of elements vectors are loaded with gaps, in reverse or turned, by a few shuffles each."""

from __future__ import annotations

from collections.abc import Mapping

_NEIGHBOURS = frozenset({0, 1})
_STEPS: Mapping[str, frozenset[int]] = {"float32": frozenset({0, 1, 2, -1})}


def steps_of_vectors(dtype: str) -> frozenset[int]:
    """The steps from one element of a vector to the next with which at most two loads and a shuffle make it.

    0 is one element in all lanes, and -1 a row in reverse.
    """
    return _STEPS.get(dtype, _NEIGHBOURS)


FEWEST_LANES = {2: 4, 3: 8, 4: 8}
"""Lanes from which on vectors of floats that take turns pay, by how many do."""

_FEWEST_OF_BYTES = dict.fromkeys(FEWEST_LANES, 4)


def fewest_lanes(dtype: str, turns: int) -> int | None:
    """Lanes from which on it pays to store vectors whose elements take turns in memory; None where it never does.

    Bytes of a row are put together in registers. Other elements are shuffled.
    """
    lanes = {"float32": FEWEST_LANES, "int8": _FEWEST_OF_BYTES, "uint8": _FEWEST_OF_BYTES}
    return lanes.get(dtype, {}).get(turns)


def has_shuffles(dtype: str) -> bool:
    """Whether the printer has squares, phases and columns of a type, and so lays out elements in registers."""
    return dtype in _STEPS
