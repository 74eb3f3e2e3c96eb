"""Polynomials side by side have one call, whose bits are those of a call for each vector."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, topi
from tvm.s_tir import Schedule

from edgetune.codegen import emit_kernel, lockstep, render_preamble
from edgetune.codegen.lines import (
    JoinableCall,
    Line,
    LineKind,
    addition,
    assignment,
    branch,
    call,
    constant,
    joinable,
    variable,
)
from edgetune.codegen.lockstep import in_lockstep
from edgetune.codegen.polynomials import BODIES
from edgetune.codegen.text import Address, Code, Lvalue, Text, code
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.target.target import load_target
from tests.codegen_run import STRICT, compile_strictly, flags_for, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments

TARGETS = {
    "wide": lambda: wide_target(512),
    "avx2": lambda: wide_target(256),
    "sse": lambda: wide_target(128),
    "aarch64": lambda: load_target("generic-aarch64"),
    "armv7": lambda: load_target("generic-armv7"),
}

COUNTS = (2, 3, 4, 5)
LENGTH = 16 * 60
_FLOATS = ctypes.POINTER(ctypes.c_float)
_LOOP = """
void each_{count}(const float *x, float *y)
{{
    for (int i = 0; i < 960; i += {lanes}) {{
        t__f32x16 v[{count}];
        for (int k = 0; k < {count}; ++k) v[k] = *(const t__f32x16u *)&x[i + 16 * k];
        {calls}
        for (int k = 0; k < {count}; ++k) *(t__f32x16u *)&y[i + 16 * k] = v[k];
    }}
}}
"""


def softmax(length: int, lanes: int) -> Any:
    """Rows of a softmax over the first axis, so that vectors lie side by side."""
    x = te.placeholder((length, lanes), name="x")
    return prim_func([x], topi.nn.softmax(x, axis=0))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_bits_are_those_of_single_calls(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, function = TARGETS[name](), softmax(6, 160)
    module = replay(function, default_trace(function, target)[0])
    together = emit_kernel(module, target, "together")
    assert "exp_each_f32x" in together.definition
    assert not any(one.startswith("exp:f32x") for one in together.preamble), "no line calls them"
    monkeypatch.setattr(lockstep, "AHEAD", 0)
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


def name(text: str) -> Code:
    return Code(text, (text,))


def element(array: str, index: int | str) -> Lvalue:
    return Lvalue.element(name(array), index)


def vector(array: str, index: int, const: str = "") -> Lvalue:
    """Elements of an array from an index on."""
    return Lvalue.in_variable(array, code("*({}f32x8u *){}", const, element(array, index).address))


def assigned(target: str, value: Code) -> Line:
    return assignment(target if isinstance(target, Lvalue) else Lvalue.of(target), Text(value))


def exponential(kind: str, value: Code, then: Line, function: str = "exp", of: str = "e") -> list[Line]:
    """The lines that print a polynomial of a value, and the one that reads it."""
    result = name(of)
    return [
        variable(kind, result, value),
        joinable(f"@{function}_{kind}", JoinableCall(function, kind, (result,))),
        then,
    ]


X, Y, Z, E, F, S, G = map(name, "xyzefsg")


def joined(*parts: list[Line]) -> list[str]:
    """What becomes of the lines of several calls."""
    together = in_lockstep([line for part in parts for line in part], lambda snippet: f"@{snippet}")
    return [str(line) for line in together]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (exponential("f32x8", X, assigned("s", E)), exponential("f32x8", S, assigned("t", F), of="f")),
        (exponential("f32x8", X, assigned("s", E)), exponential("f32x4", Y, assigned("t", F), of="f")),
        (exponential("f32x8", X, assigned("s", E)), exponential("f32x8", Y, assigned("t", F), "tanh", of="f")),
        (
            exponential("f32x8", X, assigned(vector("m", 0), E)),
            exponential("f32x8", vector("m", 8, "const "), assigned("t", F), of="f"),
        ),
        (
            exponential("f32x8", X, assigned(Lvalue.in_variable("m", code("*(f32x8u *){}", name("m"))), E)),
            exponential("f32x8", vector("m", 0, "const "), assigned("t", F), of="f"),
        ),
        (
            exponential("f32x8", X, call("@vmax_f32x8", Lvalue.of(S).address, Lvalue.of(E).address)),
            exponential("f32x8", S, assigned("t", F), of="f"),
        ),
        (
            [*exponential("f32x8", X, call("@columns_f32x8", element("m", 4).address, 4, Address.first(S)))],
            exponential("f32x8", element("s", 1), assigned("t", F), of="f"),
        ),
        (
            exponential("f32x8", X, branch(Code("for (;;) {"))),
            exponential("f32x8", Y, assigned("t", F), of="f"),
        ),
        (
            exponential("f32x8", X, assigned("t", code("{} * {}", E, S))),
            exponential("f32x8", Z, assigned("u", S), of="s"),
        ),
        (
            [*exponential("f32x8", X, assigned("t", E)), assigned(element("m", "i"), element("n", "i"))],
            exponential("f32x8", element("m", 0), assigned("s", F), of="f"),
        ),
    ],
    ids=[
        "one needs the other",
        "another width",
        "another function",
        "the same memory",
        "the same memory, from its first element on",
        "a call in between writes what it needs",
        "a call in between writes an array, of which it needs an element",
        "a loop begins",
        "it writes what the first one reads",
        "it needs an element that is stored in between",
    ],
)
def test_other_lines_stay(first: list[Line], second: list[Line]) -> None:
    assert joined(first, second) == [str(line) for line in [*first, *second]]


def test_what_a_later_call_needs_moves_before_the_first() -> None:
    one = name("one")
    first = exponential("f32x8", X, addition(Lvalue.of("s"), code("{} * {}", E, X)), "log")
    between = [
        variable("f32x8", G, Y),
        call("@vmax_f32x8", Lvalue.of(G).address, Lvalue.of(one).address),
        assigned("u", name("v")),
    ]
    second = exponential("f32x8", G, assigned(vector("m", 8), F), "log", of="f")
    assert joined([constant("f32x8", one, name("o")), *first], between, second) == [
        "const f32x8 one = o;",
        "f32x8 e = x;",
        "f32x8 g = y;",
        "@vmax_f32x8(&g, &one);",
        "f32x8 f = g;",
        "@log_each:f32x8x2(&e, &f);",
        "s += e * x;",
        "u = v;",
        "*(f32x8u *)&m[8] = f;",
    ]


def test_names_of_one_place_in_memory_keep_the_order() -> None:
    alias = Line(
        Code("@alias_i32 *const whole = (@alias_i32 *)(void *)m; /* int32_t */", ("m", "whole")), LineKind.ALIASES
    )
    first = exponential("f32x8", X, assigned(vector("m", 0), E))
    second = exponential("f32x8", code("(f32x8){}", vector("whole", 0)), assigned("t", F), of="f")
    assert joined([alias], first, second) == [str(line) for line in [alias, *first, *second]]


@pytest.mark.parametrize("function", sorted(BODIES))
def test_polynomials_in_turns_have_the_bits_of_single_ones(function: str, tmp_path: Path) -> None:
    """Whatever the number of vectors, so that it may change with the schedule."""
    target = wide_target(512)
    names = [f"type:f32x16{ending}" for ending in ("", "u")]
    names += [f"{function}:f32x16", *(f"{function}_each:f32x16x{count}" for count in COUNTS)]
    loops = [_LOOP.format(count=1, lanes=16, calls=f"t__{function}_f32x16(&v[0]);")]
    for count in COUNTS:
        operands = ", ".join(f"&v[{one}]" for one in range(count))
        loops.append(
            _LOOP.format(count=count, lanes=16 * count, calls=f"t__{function}_each_f32x16x{count}({operands});")
        )
    source = tmp_path / "each.c"
    source.write_text("#include <stdint.h>\n" + render_preamble(names, target, "t") + "".join(loops))
    flags = [*flags_for(target, target.compiler.cc), *STRICT, "-Wno-missing-prototypes"]
    subprocess.run([target.compiler.cc, *flags, "-shared", "-fPIC", "-o", tmp_path / "each.so", source], check=True)
    library = ctypes.CDLL(str(tmp_path / "each.so"))
    values = np.random.default_rng(3).standard_normal(LENGTH).astype(np.float32) * 30
    values[:6] = np.nan, np.inf, -np.inf, 0, -0.0, 1e-40
    values[500:900:50] *= 1e4  # where a sine is that of the C library
    found = []
    for count in (1, *COUNTS):
        result = np.zeros_like(values)
        getattr(library, f"each_{count}")(values.ctypes.data_as(_FLOATS), result.ctypes.data_as(_FLOATS))
        found.append(result)
    for result in found[1:]:
        np.testing.assert_array_equal(result.view(np.uint32), found[0].view(np.uint32))


def test_a_function_of_one_value_is_called_once(tmp_path: Path) -> None:
    target = TARGETS["avx2"]()
    x, y = (te.placeholder((64,), name=name) for name in "xy")

    def one(i: Any) -> Any:
        """As in a GRU: (1 - z) y + z x, with z in a condition and in another function as well."""
        z = te.sigmoid(x[i])
        either = te.if_then_else(i < 32, te.exp(y[i]), te.exp(y[i]) + z)
        return (1.0 - z) * y[i] + z * x[i] + te.tanh(z) - te.tanh(z) * z + either

    function = prim_func([x, y], te.compute((64,), one, name="mixed"))
    source = emit_kernel(replay(function, default_trace(function, target)[0]), target, "mixed")
    assert source.definition.count("f32x8 sigmoid") == source.definition.count("f32x8 tangent") > 0
    compile_strictly(source, target, tmp_path, target.compiler.cc)
    arrays = random_arguments(function)
    found = run_kernel(source, target, arrays, tmp_path)[-1]
    first, second = (array.astype(np.float64) for array in arrays[:2])
    z = 1 / (1 + np.exp(-first))
    wanted = (1 - z) * second + z * first + np.tanh(z) * (1 - z) + np.exp(second) + z * (np.arange(64) >= 32)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (
            lambda i, x, y: te.if_then_else(i < 32, te.exp(x[i]) * 2.0, te.exp(x[i]) + 1.0) + y[i],
            lambda below, x, y: np.where(below, np.exp(x) * 2, np.exp(x) + 1) + y,
        ),
        (
            lambda i, x, y: te.if_then_else(i < 32, te.exp(x[i]), y[i]) + te.exp(x[i]),
            lambda below, x, y: np.where(below, np.exp(x), y) + np.exp(x),
        ),
        (
            lambda i, x, y: te.exp(x[i]) + te.if_then_else(i < 32, te.exp(x[i]), y[i]),
            lambda below, x, y: np.where(below, np.exp(x), y) + np.exp(x),
        ),
    ],
    ids=["in both branches", "after a branch", "before a branch"],
)
def test_a_result_of_a_branch_ends_with_it(value: Any, wanted: Any, tmp_path: Path) -> None:
    """A variable that is declared in a branch is not there outside of it, nor in the other one."""
    target = TARGETS["avx2"]()
    x, y = (te.placeholder((64,), name=name) for name in "xy")
    function = prim_func([x, y], te.compute((64,), lambda i: value(i, x, y), name="chosen"))
    sch = Schedule(function)
    (loop,) = sch.get_loops("chosen")
    sch.vectorize(sch.split(loop, [None, 8])[1])
    source = emit_kernel(sch.mod, target, "chosen")
    compile_strictly(source, target, tmp_path, target.compiler.cc)
    arrays = random_arguments(function)
    found = run_kernel(source, target, arrays, tmp_path)[-1]
    exact = wanted(np.arange(64) < 32, *(array.astype(np.float64) for array in arrays[:2]))
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
