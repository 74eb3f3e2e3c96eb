"""What a kernel is called: after its operators, and after the shape of its result where others have these too.

Names are for people and for C symbols. Records know kernels by their workload, so no name decides what is found again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import tvm
from tvm import relax

from edgetune.config.naming import identifier

LONGEST = 60
"""Characters of a name before shape and number."""

# What quantisation looks like once it is elementwise (see edgetune.models.converters.quantisation).
_CHAINS = (
    ("divide round add maximum minimum cast", "quantize"),
    ("divide round maximum minimum cast", "quantize"),
    ("round add maximum minimum cast", "quantize"),
    ("round maximum minimum cast", "quantize"),
    ("cast subtract cast multiply", "dequantize"),
    ("cast cast multiply", "dequantize"),
    ("cast multiply multiply add", "scale_add"),
)
# What says least about a kernel: left out first where a name would be too long.
_PLAIN = frozenset({"add", "cast", "divide", "maximum", "minimum", "multiply", "power", "reshape", "subtract", "where"})
_REPEATED = 3  # so many equal operators in a row, or more, are written as one and their number


def operators_of_functions(module: tvm.IRModule) -> dict[str, tuple[str, ...]]:
    """The operators of each fused function of `module`, by its name, in the order in which they are computed."""
    return {
        name.name_hint: tuple(
            binding.value.args[0].name_hint
            for block in function.body.blocks
            for binding in block.bindings
            if isinstance(binding.value, relax.Call) and getattr(binding.value.op, "name", "") == "relax.call_tir"
        )
        for name, function in module.functions.items()
        if isinstance(function, relax.Function) and name.name_hint != "main"
    }


def operators(functions: Sequence[str]) -> tuple[str, ...]:
    """The operators of a kernel that these functions of a legalised module make up: conv2d, add for conv2d3, tir_add1.

    What TVM appends or prepends, to tell functions apart, is left out; the steps of a quantisation are one operator.
    """
    words = [re.sub(r"(?<=[a-z])\d+$", "", name.removeprefix("tir_")) for name in functions]
    words = [identifier(word, "kernel") for word in words]
    for steps, operator in _CHAINS:
        words = _replaced(words, steps.split(), operator)
    return tuple(words)


def _replaced(words: list[str], steps: list[str], operator: str) -> list[str]:
    made: list[str] = []
    at = 0
    while at < len(words):
        found = words[at : at + len(steps)] == steps
        made.append(operator if found else words[at])
        at += len(steps) if found else 1
    return made


def summary(sources: Sequence[str]) -> str:
    """One name for the operators of a kernel, made of whole words, at most `LONGEST` characters for any usual operator.

    Three equal ones in a row are written add_x3. What is too long has each operator once; then arithmetic is left
    out, the last first, and at last others. What is missing is counted: conv2d_tanh_and_12_more.
    """
    runs = [(word, len(list(run))) for word, run in groupby(sources)]
    words = [w for word, n in runs for w in ([f"{word}_x{n}"] if n >= _REPEATED else [word] * n)]
    name = "_".join(words)
    if len(name) <= LONGEST:
        return name or "kernel"
    kept = list(dict.fromkeys(sources))
    while len(kept) > 1 and len(_with_rest(kept, sources)) > LONGEST:
        plain = [number for number, word in enumerate(kept) if word in _PLAIN]
        del kept[plain[-1] if plain else -1]
    return _with_rest(kept, sources)


def _with_rest(kept: Sequence[str], sources: Sequence[str]) -> str:
    left = len(sources) - len(kept)
    return "_".join(kept) + (f"_and_{left}_more" if left else "")


def kernel_names(kernels: Sequence[tuple[Sequence[str], Sequence[int]]]) -> list[str]:
    """Names for kernels, given the operators of each and the shape of its result; all differ.

    Where several are made of the same operators the extents of the result tell them apart, those that are 1 at its
    beginning left out; where these are the same too, a number does, by order.
    """
    stems = [summary(sources) for sources, _ in kernels]
    shared = Counter(stems)
    taken: set[str] = set()
    names: list[str] = []
    for stem, (_, shape) in zip(stems, kernels, strict=True):
        base = stem if shared[stem] == 1 else f"{stem}_{_extents(shape)}"
        name, number = base, 1
        while name in taken or (name != stem and name in shared):
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        names.append(name)
    return names


def _extents(shape: Sequence[int]) -> str:
    wide = list(shape)
    while len(wide) > 1 and wide[0] == 1:
        del wide[0]
    return "x".join(map(str, wide)) or "scalar"
