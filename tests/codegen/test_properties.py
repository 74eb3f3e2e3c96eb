"""Random functions under random schedules: what the C computes is what TVM's own backend computes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import s_tir, te, tirx

from edgetune.codegen import emit_kernel
from edgetune.target.target import load_target
from tests.codegen_run import run_kernel, wide_target
from tests.examples import costly

_FLOATS = ("float32", "float64", "float16")
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_FLOAT_OPS = ("exp", "tanh", "sigmoid", "erf", "sqrt_abs", "floor", "ceil", "round", "trunc", "negate", "relu", "clip")
_INTEGER_OPS = ("relu", "negate", "shift", "mod", "div", "xor", "square")


def _unary(name: str, x: Any, dtype: str) -> Any:
    of = {
        "exp": lambda: tirx.exp(x),
        "tanh": lambda: tirx.tanh(x),
        "sigmoid": lambda: tirx.sigmoid(x),
        "erf": lambda: tirx.erf(x) if dtype == "float32" else tirx.tanh(x),
        "sqrt_abs": lambda: tirx.sqrt(tirx.abs(x) + tirx.const(1, dtype)),
        "floor": lambda: tirx.floor(x),
        "ceil": lambda: tirx.ceil(x),
        "round": lambda: tirx.round(x),
        "trunc": lambda: tirx.trunc(x),
        "negate": lambda: tirx.const(1, dtype) - x,
        "relu": lambda: tirx.max(x, tirx.const(0, dtype)),
        "clip": lambda: tirx.max(tirx.min(x, tirx.const(1, dtype)), tirx.const(-1, dtype)),
        "shift": lambda: x >> tirx.const(1, dtype),
        "mod": lambda: tirx.floormod(x, tirx.const(7, dtype)),
        "div": lambda: tirx.floordiv(x, tirx.const(3, dtype)),
        "xor": lambda: tirx.bitwise_xor(x, tirx.const(5, dtype)),
        "square": lambda: tirx.floordiv(x * x, tirx.const(4, dtype)),
    }
    return of[name]()


def _stage(draw: Any, x: Any, number: int) -> Any:
    """One more tensor computed from `x` (rank 2)."""
    rows, columns = (int(extent) for extent in x.shape)
    dtype = str(x.dtype)
    kind = draw(
        st.sampled_from(("unary", "unary", "transpose", "pad", "sum", "max", "stride", "cast", "where", "reverse"))
    )
    name = f"s{number}_{kind}"
    if kind == "unary":
        ops = _FLOAT_OPS if dtype.startswith("float") else _INTEGER_OPS
        # TVM's own backend narrows clamped differences of unsigned numbers wrongly.
        op = draw(st.sampled_from(tuple(op for op in ops if not (op == "negate" and dtype.startswith("uint")))))
        return te.compute((rows, columns), lambda i, j: _unary(op, x[i, j], dtype), name=name)
    if kind == "transpose":
        return te.compute((columns, rows), lambda i, j: x[j, i], name=name)
    if kind == "pad":
        return te.compute(
            (rows + 2, columns + 3),
            lambda i, j: tirx.if_then_else(
                tirx.all(i >= 1, i < rows + 1, j >= 2, j < columns + 2), x[i - 1, j - 2], tirx.const(0, dtype)
            ),
            name=name,
        )
    if kind in ("sum", "max"):
        k = te.reduce_axis((0, columns), "k")
        reducer = te.sum if kind == "sum" else te.max
        return te.compute((rows, 1), lambda i, _: reducer(x[i, k], axis=k), name=name)
    if kind == "stride":
        return te.compute((rows, -(-columns // 2)), lambda i, j: x[i, j * 2], name=name)
    if kind == "reverse":
        return te.compute((rows, columns), lambda i, j: x[i, columns - 1 - j], name=name)
    if kind == "where":
        zero = tirx.const(0, dtype)
        if dtype.startswith("uint"):
            return te.compute((rows, columns), lambda i, j: tirx.Select(x[i, j] > zero, zero, x[i, j]), name=name)
        return te.compute(
            (rows, columns), lambda i, j: tirx.Select(x[i, j] > zero, x[i, j] + zero, zero - x[i, j]), name=name
        )
    to = draw(st.sampled_from(("float32", "int32", "int8", "uint8", "float64", "int64")))
    low, high = tirx.const(0 if "uint" in (to + dtype) else -100, dtype), tirx.const(100, dtype)
    # What does not fit is undefined in TVM's backend, and saturates here.
    return te.compute((rows, columns), lambda i, j: tirx.max(tirx.min(x[i, j], high), low).astype(to), name=name)


@st.composite
def _functions(draw: Any) -> Any:
    shape = (draw(st.integers(1, 9)), draw(st.integers(1, 40)))
    a = te.placeholder(shape, draw(st.sampled_from(_FLOATS[:2] * 3 + _INTEGERS + _FLOATS[2:])), name="a")
    b = te.placeholder(shape, str(a.dtype), name="b")
    last = te.compute(shape, lambda i, j: a[i, j] + b[i, j], name="both")
    for number in range(draw(st.integers(1, 4))):
        last = _stage(draw, last, number)
    return te.create_prim_func([a, b, last])


def _schedule(draw: Any, function: Any) -> Any:
    schedule = s_tir.Schedule(function)
    root = schedule.get_sblock("root")
    for block in schedule.get_child_blocks(root):
        loops = schedule.get_loops(block)
        choice = draw(st.sampled_from(("plain", "inline", "vectorize", "split", "unroll", "fuse", "decompose")))
        try:
            if choice == "inline":
                schedule.compute_inline(block)
            elif choice == "vectorize":
                schedule.vectorize(loops[-1])
            elif choice == "split":
                _, inner = schedule.split(loops[-1], [None, draw(st.sampled_from((2, 3, 4, 8, 16, 24)))])
                schedule.vectorize(inner)
            elif choice == "unroll":
                schedule.unroll(loops[-1])
            elif choice == "fuse":
                _, inner = schedule.split(schedule.fuse(*loops), [None, draw(st.sampled_from((4, 8, 32)))])
                schedule.vectorize(inner)
            elif choice == "decompose":
                schedule.decompose_reduction(block, loops[-1])
        except s_tir.ScheduleError:
            continue
    return schedule.mod


def _inputs(function: Any, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in function.params:
        shape, dtype = [int(extent) for extent in buffer.ty.shape], str(buffer.ty.dtype)
        if dtype.startswith("float"):
            arrays.append(rng.uniform(-3, 3, shape).astype(dtype))
        else:
            arrays.append(rng.integers(0 if dtype.startswith("u") else -7, 8, shape).astype(dtype))
    return arrays


def _reference(function: Any, arrays: list[np.ndarray]) -> np.ndarray:
    built = tvm.compile(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), target={"kind": "llvm"})
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    built(*tensors)
    return np.asarray(tensors[-1].numpy())


def _check(actual: np.ndarray, expected: np.ndarray, text: str, *, half: bool) -> None:
    if expected.dtype.kind != "f":
        # A float one unit off may be cut to the integer below.
        difference = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        assert difference.max() <= 1, text
        assert (difference != 0).mean() <= 0.05, text
        return
    # In float16 TVM rounds after every operation, the C where it stores.
    loose = 3e-2 if half else 1e-5
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), loose, loose, err_msg=text)


_TARGETS: dict[str, Callable[[], Any]] = {
    "wide": lambda: wide_target(load_target("host").vector_bits),
    "narrow": lambda: wide_target(128),
    "scalar": lambda: wide_target(0),
}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(_TARGETS))
@given(data=st.data())
@costly(20)
def test_random_functions_compute_what_tvm_computes(name: str, data: st.DataObject) -> None:
    function = data.draw(_functions())
    target = _TARGETS[name]()
    module = _schedule(data.draw, function)
    source = emit_kernel(module, target, "kernel")
    arrays = _inputs(function, data.draw(st.integers(0, 5)))
    with tempfile.TemporaryDirectory() as folder:
        results = run_kernel(
            source, target, arrays, Path(folder), extra=("-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror")
        )
    _check(results[-1], _reference(function, arrays), source.definition, half=arrays[0].dtype == np.float16)
