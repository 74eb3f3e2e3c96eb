"""Unscheduled kernels as graphs leave them, their numpy results, and a way to run a scheduled one by TVM's LLVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import te, topi

from edgetune.target.target import Compiler, Target
from tests.compile_cache import kept

Array = np.ndarray[Any, np.dtype[Any]]


def board(vector_bits: int = 256, registers: int = 16) -> Target:
    """A board as files describe them; its code runs on this machine through LLVM whatever the width."""
    return Target(
        name="sample",
        description="for tests",
        isa="x86_64",
        triple="x86_64-linux-gnu",
        cpu="x86-64-v3",
        vector_bits=vector_bits,
        vector_registers=registers,
        cores=1,
        l1_bytes=32768,
        l2_bytes=1048576,
        compiler=Compiler(cc="gcc", cflags=("-O2",)),
        reach="local",
    )


def prim_func(inputs: Sequence[Any], output: Any, layout_free: Sequence[int] = ()) -> Any:
    """The kernel that computes `output` of placeholders `inputs`; constants are given by their positions."""
    function = te.create_prim_func([*inputs, output])
    return function.with_attr("layout_free_buffers", list(layout_free)) if layout_free else function


def conv2d(
    shape: tuple[int, int, int],
    out: int,
    *,
    kernel: tuple[int, int] = (3, 3),
    stride: int = 1,
    pad: tuple[int, int, int, int] = (1, 1, 1, 1),
    groups: int = 1,
    dilation: int = 1,
    tail: str = "bias_relu",
) -> Any:
    """NHWC convolution of (height, width, channels) to `out` channels; `tail` is "", "bias_relu" or "residual"."""
    height, width, channels = shape
    x = te.placeholder((1, height, width, channels), name="x")
    w = te.placeholder((out, *kernel, channels // groups), name="w")
    y = topi.nn.conv(x, w, stride, pad, dilation, groups, data_layout="NHWC", kernel_layout="OHWI")
    inputs = [x, w]
    if tail:
        inputs.append(te.placeholder((1, 1, 1, out), name="bias"))
        y = topi.add(y, inputs[-1])
    if tail == "residual":
        inputs.append(te.placeholder(tuple(y.shape), name="other"))
        y = topi.add(y, inputs[-1])
    return prim_func(inputs, topi.nn.relu(y) if tail else y, [1])


def dense(rows: int, depth: int, columns: int, *, constant: bool = True) -> Any:
    """Matrix product with bias; `constant` says that the second matrix is a weight."""
    x, w = te.placeholder((rows, depth), name="x"), te.placeholder((depth, columns), name="w")
    bias = te.placeholder((columns,), name="bias")
    return prim_func([x, w, bias], topi.add(topi.nn.matmul(x, w), bias), [1] if constant else [])


def random_arguments(function: Any, seed: int = 0) -> list[Array]:
    """One array per parameter, the output's filled with a value that no kernel leaves."""
    random = np.random.default_rng(seed)
    arrays = []
    for param in function.params:
        shape = tuple(int(extent) for extent in param.shape)
        values = random.standard_normal(shape) if "float" in str(param.dtype) else random.integers(-5, 6, shape)
        arrays.append(values.astype(str(param.dtype)))
    arrays[-1] = np.full_like(arrays[-1], 77)
    return arrays


# These programs are small: optimising them takes LLVM longer than running them.
_LLVM = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1, "opt-level": 0}


def run(mod: Any, arrays: Sequence[Array]) -> Array:
    """The last argument after one call of the module's "main", compiled by LLVM (weights are packed on the fly)."""
    compiled = tvm.compile(mod, target=tvm.target.Target(_LLVM))
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    compiled["main"](*tensors)
    return np.asarray(tensors[-1].numpy())


def run_plain(function: Any, arrays: Sequence[Array]) -> Array:
    """The same by the untouched function: a reference, which is computed once for the function and its arguments."""
    plain = function.with_attr("global_symbol", "main")
    if "layout_free_buffers" in (plain.attrs or {}):
        plain = plain.without_attr("layout_free_buffers")
    mod = tvm.IRModule({"main": plain})
    given = [part for array in arrays for part in (f"{array.dtype} {array.shape}", array.tobytes())]
    parts = [tvm.__version__, tvm_ffi.__version__, str(_LLVM), tvm.ir.save_json(mod), *given]
    result: Array = np.load(kept(parts, ".npy", lambda path: np.save(path, run(mod, arrays))))
    return result


def conv2d_reference(x: Array, w: Array, stride: int, pad: tuple[int, int, int, int], groups: int) -> Array:
    """NHWC convolution by numpy, window position by window position; `pad` is top, left, bottom, right."""
    top, left, bottom, right = pad
    x = np.pad(x.astype("float64"), ((0, 0), (top, bottom), (left, right), (0, 0)))
    out, kh, kw, depth = w.shape
    height, width = (x.shape[1] - kh) // stride + 1, (x.shape[2] - kw) // stride + 1
    y = np.zeros((1, height, width, out))
    share = out // groups
    for group in range(groups):
        part = x[..., group * depth : (group + 1) * depth]
        weights = w[group * share : (group + 1) * share].astype("float64")
        for i in range(kh):
            for j in range(kw):
                window = part[:, i : i + stride * height : stride, j : j + stride * width : stride]
                y[..., group * share : (group + 1) * share] += window[:, :height, :width] @ weights[:, i, j].T
    return y
