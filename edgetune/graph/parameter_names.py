"""Names kernel parameters by what they are, so that equal kernels of different models are equal C, and read well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import tirx

from edgetune.graph.program import Role


def parameter_names(shapes: Sequence[tuple[int, ...]], roles: Sequence[Role], accumulates: bool) -> list[str]:
    """One name per parameter: input, weights, bias, constant or output, numbered from the second of its kind on."""
    taken: Counter[str] = Counter()
    names = []
    for shape, role in zip(shapes, roles, strict=True):
        name: str = role
        if role == "constant" and accumulates:
            name = "weights" if sum(extent > 1 for extent in shape) > 1 else "bias"
        taken[name] += 1
        names.append(name if taken[name] == 1 else f"{name}_{taken[name]}")
    return names


def rename_parameters(function: tirx.PrimFunc, names: Sequence[str]) -> tirx.PrimFunc:
    """`function` with its parameters called `names`; nothing else changes."""
    renamed = {old: tvm.ir.Var(name, old.ty) for old, name in zip(function.params, names, strict=True)}
    return tvm_ffi.structural_map(function, (tvm.ir.Var, lambda variable: renamed.get(variable, variable)))
