"""The text format of a schedule: the name of the algorithm that it schedules, and TVM's trace.

The text of the direct algorithm is the trace's own JSON, as it was before other algorithms existed.
"""

from __future__ import annotations

import json

from edgetune.tvm_types import Trace

DIRECT = "direct"
"""The algorithm that uses the kernel's function unchanged."""

WINOGRAD = ("winograd_f2", "winograd_f4")
"""Convolutions by tiles of 2x2 and 4x4 outputs; a larger tile needs fewer products, but is less exact."""

VECTORS = ("vectors_512", "vectors_256", "vectors_128", "vectors_64")
"""Channels in whole vectors of this many bits, the widest first; the last vector overlaps the one before it."""

TILES = tuple(f"tiles_{pixels}" for pixels in range(2, 17))
"""Pixels in whole tiles of this many pixels; the last tile overlaps the one before it."""

BOTH = tuple(f"{vectors}+{tiles}" for vectors in VECTORS for tiles in TILES)
"""Whole vectors of channels in whole tiles of pixels: both overlap."""

PEELED = ("peeled_512", "peeled_256", "peeled_128")
"""Reductions in whole vectors of this many bits and a rest."""

DOTS = ("dot_int8_16", "dot_uint8_4", "dot_int8_4", "dot_int16_4", "dot_int16_2", "dot_int8_2")
"""Products of 8-bit integers that one instruction adds to a lane: the type of the data, and how many."""

IM2COL = tuple(name.replace("dot", "im2col") for name in DOTS)
"""The same with all terms of each result side by side in a copy."""

DOTS_IN_TILES = tuple(f"{dots}+{tiles}" for dots in DOTS for tiles in TILES)
"""Such products of pixels in whole tiles, which overlap."""

PAIRS = ("pairs_16", "pairs_8")
"""Products of 8-bit integers of which each lane has its own data, two taps at a time: the results of a step."""

LANES = ("lanes_8_int8", "lanes_4_int16", "lanes_4_int8")
"""Products of 8-bit integers of which each lane has its own data, one tap at a time: the results of a step, and the
type of the weights in memory."""

WIDE = ("wide_float32",)
"""Products of 8-bit integers as floats, with the same results."""

FORMS = (DIRECT, *WINOGRAD, *VECTORS, *TILES, *BOTH, *PEELED, *DOTS, *IM2COL, *DOTS_IN_TILES, *PAIRS, *LANES, *WIDE)
"""The names of all algorithms."""


def sets_of_algorithms() -> tuple[frozenset[str], ...]:
    """The sets that settings leave to a build, the largest first; the last is for flash limits that others exceed."""
    return (*(allowed_algorithms(winograd) for winograd in ("f4", "f2", "off")), frozenset({DIRECT}))


def sets_by_flash() -> tuple[frozenset[str], ...]:
    """The sets that limits of flash leave, the largest first.

    Weights in a wider type go first, then those that are transformed or repeated, then those with zeros between.
    """
    bytes_of_weights = frozenset(FORMS).difference(WIDE, (one for one in LANES if not one.endswith("int8")))
    as_they_are = bytes_of_weights.difference(WINOGRAD, VECTORS, BOTH, PAIRS)
    return bytes_of_weights, as_they_are, frozenset({DIRECT})


def allowed_algorithms(winograd: str) -> frozenset[str]:
    """The algorithms that are allowed if `winograd` ("off", "f2" or "f4") is the largest allowed tile."""
    largest = {"off": 0, "f2": 1, "f4": 2}[winograd]
    return frozenset(FORMS).difference(WINOGRAD[largest:])


def size_of(name: str) -> int:
    """Bits of a vector for an algorithm in `VECTORS` or `PEELED`, pixels of a tile for one in `TILES`."""
    return int(name.rpartition("_")[2])


def schedule_text(algorithm: str, trace: str) -> str:
    """The text of a schedule; `trace` is the JSON of a trace."""
    return trace if algorithm == DIRECT else f"{prefix_of(algorithm)}{trace}}}"


def prefix_of(algorithm: str) -> str:
    """The first part of the text of every schedule of an algorithm; "" for the direct one."""
    return "" if algorithm == DIRECT else f'{{"form":{json.dumps(algorithm)},"trace":'


def algorithm_and_trace(text: str) -> tuple[str, str]:
    """The algorithm's name and the trace's JSON; text without an algorithm's name is a trace of the direct one."""
    algorithm = algorithm_of(text)
    return (algorithm, text) if algorithm == DIRECT else (algorithm, text.removeprefix(prefix_of(algorithm))[:-1])


def algorithm_of(text: str) -> str:
    """The name of the algorithm that a schedule belongs to."""
    start = prefix_of("?").partition("?")[0]
    if not text.startswith(start):
        return DIRECT
    name = text[len(start) :].partition('"')[0]
    return name if text.startswith(prefix_of(name)) and text.endswith("}") else DIRECT


def trace_text(trace: Trace) -> str:
    """The trace as compact JSON text, postprocessing included; equal traces give equal text."""
    return json.dumps(trace.as_json(), separators=(",", ":"), default=lambda constant: constant.value)
