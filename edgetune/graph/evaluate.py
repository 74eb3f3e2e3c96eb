"""Runs a kernel on this machine, at build time, on constants: what depends on no input need not ship as code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm


def evaluate(
    function: tvm.tirx.PrimFunc, arguments: Sequence[np.ndarray], outputs: Sequence[tuple[tuple[int, ...], str]]
) -> list[np.ndarray]:
    """Outputs (shape, numpy dtype name) of `function` for `arguments`, computed by TVM's LLVM back end."""
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    compiled = tvm.compile(module, target="llvm")
    results = [tvm.runtime.tensor(np.zeros(shape, dtype)) for shape, dtype in outputs]
    compiled["main"](*[tvm.runtime.tensor(np.ascontiguousarray(a)) for a in arguments], *results)
    return [r.numpy() for r in results]
