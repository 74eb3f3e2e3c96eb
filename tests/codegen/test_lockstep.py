"""Exponentials side by side have one call, whose bits are those of a call for each vector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, topi

from edgetune.codegen import emit_kernel, lockstep
from edgetune.codegen.lockstep import in_lockstep
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.target.target import load_target
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments

TARGETS = {
    "wide": lambda: wide_target(512),
    "avx2": lambda: wide_target(256),
    "sse": lambda: wide_target(128),
    "aarch64": lambda: load_target("generic-aarch64"),
    "armv7": lambda: load_target("generic-armv7"),
}


def softmax(length: int, lanes: int) -> Any:
    """Rows of a softmax over the first axis, so that vectors lie side by side."""
    x = te.placeholder((length, lanes), name="x")
    return prim_func([x], topi.nn.softmax(x, axis=0))


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_bits_are_those_of_single_calls(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, function = TARGETS[name](), softmax(6, 160)
    module = replay(function, default_trace(function, target)[0])
    together = emit_kernel(module, target, "together")
    assert "exp_each_f32x" in together.definition
    assert not any(one.startswith("exp:f32x") for one in together.preamble), "no line calls them"
    monkeypatch.setattr(lockstep, "MOST", 1)
    alone = emit_kernel(module, target, "alone")
    assert "exp_each" not in alone.definition
    arrays = random_arguments(function)
    arrays[0] *= 40
    arrays[0][2, 5], arrays[0][3, 7], arrays[0][:, 9] = np.nan, -np.inf, np.inf
    for one in ("together", "alone"):
        (tmp_path / one).mkdir()
    compile_strictly(together, target, tmp_path / "together", target.compiler.cc)
    if name == "wide":
        compile_strictly(together, target, tmp_path / "together", "clang-19")
    found, wanted = (run_kernel(s, target, arrays, tmp_path / s.symbol)[-1] for s in (together, alone))
    np.testing.assert_array_equal(found, wanted)


def exponential(kind: str, value: str, target: str, function: str = "exp") -> list[str]:
    """The lines that print the exponential of a value."""
    return [f"    {kind} e = {value};", f"    @{function}_{kind}(&e);", f"    {target} = e;"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (exponential("f32x8", "x", "s"), exponential("f32x8", "s", "t")),
        (exponential("f32x8", "x", "s"), exponential("f32x4", "y", "t")),
        (exponential("f32x8", "x", "s"), exponential("f32x8", "y", "t", "tanh")),
        (exponential("f32x8", "x", "*(f32x8u *)&m[0]"), exponential("f32x8", "*(const f32x8u *)&m[8]", "t")),
    ],
    ids=["one needs the other", "another width", "another function", "the same memory"],
)
def test_other_lines_stay(first: list[str], second: list[str]) -> None:
    assert in_lockstep([*first, *second], lambda snippet: f"@{snippet}") == [*first, *second]
