"""Kernel names: the kernel's operators, plus the shape of its result if several kernels have the same operators.

Names serve people and C symbols. Records identify a kernel by its workload, so a name never decides which record is
found.
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
"""Most characters of a name, without shape and number."""

# Quantisation as a chain of elementwise operators (see edgetune.frontend.onnx.converters.quantisation).
_CHAINS = (
    ("divide round add maximum minimum cast", "quantize"),
    ("divide round maximum minimum cast", "quantize"),
    ("round add maximum minimum cast", "quantize"),
    ("round maximum minimum cast", "quantize"),
    ("cast subtract cast multiply", "dequantize"),
    ("cast cast multiply", "dequantize"),
    ("cast multiply multiply add", "scale_add"),
    ("cast multiply add", "scale_add"),
)
# Operators that say least about a kernel: left out first if a name is too long.
_PLAIN = frozenset({"add", "cast", "divide", "maximum", "minimum", "multiply", "power", "reshape", "subtract", "where"})
_REPEATED = 3  # least number of equal operators in a row that are written as one with a count


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
    """The operators of a kernel made of these functions of a legalised module: conv2d, add for conv2d3, tir_add1.

    Suffixes and prefixes that TVM adds to distinguish functions are removed. The steps of a quantisation are one
    operator.
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

    Three or more equal ones in a row are written as add_x3. In a name that is too long each operator appears once; then
    arithmetic operators are left out, the last first, and finally others. The name counts what is missing:
    conv2d_tanh_and_12_more.
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
    """Unique names for kernels, given the operators and the result shape of each.

    If several kernels have the same operators, the extents of the result (without leading extents of 1) distinguish
    them. If these are the same too, a number does, in order.
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
