"""Names and constants: nothing hostile gets through, nothing is rounded; what cannot be printed says so."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.codegen import emit_kernel, render_preamble
from edgetune.codegen.dtypes import element
from edgetune.codegen.literals import float_literal, int_literal
from edgetune.codegen.names import Names, identifier
from edgetune.errors import KernelFailed
from tests import codegen_samples as samples
from tests.codegen_run import compile_strictly, run_kernel, wide_target


@pytest.mark.long
@given(st.text(max_size=60))
def test_any_name_becomes_a_harmless_identifier(name: str) -> None:
    found = identifier(name)
    assert found.isidentifier()
    assert found.isascii()
    assert len(found) <= 43
    assert found not in {"int", "linux", "exp", "y1", "scratch", "f32x4", "uint8_t"}
    assert "__" not in found  # as in the names of a package


@given(st.lists(st.sampled_from(["a", "A", "a!", "a_1", "int", "Int", "", "1"]), max_size=12))
def test_no_name_is_given_twice(names: list[str]) -> None:
    pool = Names(["kernel"])
    found = [pool.unique(name) for name in names]
    assert len({*found, "kernel"}) == len(found) + 1


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_constants_are_bit_exact(value: float) -> None:
    text = float_literal(value, element("float32")).code
    body = text.removesuffix("f")
    again = float.fromhex(body) if "0x" in body else float(body)
    assert struct.pack("f", again) == struct.pack("f", value)


def test_special_constants_have_no_header() -> None:
    assert float_literal(math.inf, element("float32")).code == "__builtin_inff()"
    assert float_literal(-math.inf, element("float64")).code == "-__builtin_inf()"
    assert "nan" in float_literal(math.nan, element("float16")).code
    assert int_literal(-(2**63), element("int64")).code == "(-INT64_C(9223372036854775807) - 1)"
    assert int_literal(2**64 - 1, element("uint64")).code == "UINT64_C(18446744073709551615)"
    assert int_literal(-(2**31), element("int32")).code == "(-2147483647 - 1)"


def test_hostile_parameter_names_compile(tmp_path: Path) -> None:
    names = ["int", "*/ evil", "exp", "kernel"]
    inputs = [te.placeholder((20,), name=name) for name in names]
    out = te.compute((20,), lambda i: sum(tensor[i] for tensor in inputs[1:]) + inputs[0][i], name="for")
    module = samples.module(te.create_prim_func([*inputs, out]))
    source = emit_kernel(module, wide_target(), "kernel")
    assert len({param.name for param in source.params}) == 5
    compile_strictly(source, wide_target(), tmp_path, "gcc")


def test_preamble_holds_what_is_named_and_nothing_else() -> None:
    assert render_preamble([], wide_target(), "test") == ""
    text = render_preamble(["tanh:f32x16", "max:f32"], wide_target(), "test")
    assert text.index("test__exp_f32x16(") < text.index("test__tanh_f32x16(")
    assert "erf" not in text
    assert text == render_preamble(["max:f32", "tanh:f32x16"], wide_target(), "test")
    with pytest.raises(KernelFailed, match="no preamble snippet"):
        render_preamble(["frobnicate:f32"], wide_target(), "test")


def test_what_cannot_be_printed_is_named() -> None:
    x = te.placeholder((4,), name="x")
    foreign = te.compute((4,), lambda i: tirx.call_pure_extern("float32", "my_function", x[i]), name="out")
    with pytest.raises(KernelFailed, match="my_function"):
        emit_kernel(samples.module(te.create_prim_func([x, foreign])), wide_target(), "kernel")
    with pytest.raises(KernelFailed, match="holds 0"):
        emit_kernel(tvm.IRModule({}), wide_target(), "kernel")


def _huge() -> Any:
    x = te.placeholder((64, 64), name="x")
    out = te.compute((64, 64), lambda i, j: x[i, j] * x[j, i] + tirx.exp(x[i, j]), name="out")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, out]))
    for loop in schedule.get_loops(schedule.get_sblock("out")):
        schedule.unroll(loop)
    return schedule.mod


def test_unrolling_has_a_limit(tmp_path: Path) -> None:
    source = emit_kernel(_huge(), wide_target(), "kernel")
    assert len(source.definition) < 100_000
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    found = run_kernel(source, wide_target(), [x, np.zeros_like(x)], tmp_path)[-1]
    np.testing.assert_allclose(found, x * x.T + np.exp(x), 1e-5, 1e-5)


def test_large_buffers_go_to_the_scratch_and_small_ones_to_the_stack() -> None:
    large = emit_kernel(samples.module(samples.softmax(3, 1000)), wide_target(), "kernel")
    assert large.prototype.endswith("unsigned char *restrict scratch)")
    assert large.scratch_bytes >= 3 * 1000 * 4
    small = emit_kernel(samples.module(samples.softmax(3, 10)), wide_target(), "kernel")
    assert small.scratch_bytes == 0
    assert 0 < small.local_bytes <= 1024
