"""TVM's view of a board: an LLVM target from which search rules and passes read CPU facts; it never generates code."""

from __future__ import annotations

from functools import cache

import tvm

from edgetune.target.target import Target


def tvm_target(target: Target) -> tvm.target.Target:
    """TVM's target for `target`."""
    return _made(target.triple, target.cpu, target.llvm_features, target.cores)


@cache
def _made(triple: str, cpu: str, features: tuple[str, ...], cores: int) -> tvm.target.Target:
    options: dict[str, object] = {"kind": "llvm", "mtriple": triple, "mcpu": cpu, "num-cores": cores}
    if features:
        options["mattr"] = list(features)
    return tvm.target.Target(options)
