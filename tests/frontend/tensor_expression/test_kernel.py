"""Tensor expressions become kernels, or a sentence that says why not."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import te

from edgetune.errors import UsageError
from edgetune.frontend.tensor_expression.kernel import kernel_from_te


def dense(rows: int, width: int) -> tuple[Any, Any, Any]:
    x = te.placeholder((rows, width), name="x")
    w = te.placeholder((4, width), name="w")
    k = te.reduce_axis((0, width), name="k")
    return x, w, te.compute((rows, 4), lambda i, j: te.sum(x[i, k] * w[j, k], k), name="y")


def test_roles_shapes_and_work() -> None:
    x, w, y = dense(8, 16)
    kernel = kernel_from_te([x, w, y], "dense", constants=[w], weight=3)
    assert [(param.name, param.shape, param.role) for param in kernel.params] == [
        ("x", (8, 16), "input"),
        ("w", (4, 16), "constant"),
        ("y", (8, 4), "output"),
    ]
    assert kernel.macs == 8 * 16 * 4
    assert kernel.weight == 3
    assert [int(index) for index in kernel.function.attrs["layout_free_buffers"]] == [1]


def test_equal_expressions_are_one_workload() -> None:
    assert kernel_from_te(dense(8, 16)).workload == kernel_from_te(dense(8, 16), "other").workload
    assert kernel_from_te(dense(8, 16)).workload != kernel_from_te(dense(8, 32)).workload


def test_wrong_use_is_explained() -> None:
    x, w, y = dense(2, 2)
    with pytest.raises(UsageError, match="placeholders first"):
        kernel_from_te([y, x, w])
    with pytest.raises(UsageError, match="cannot name a kernel"):
        kernel_from_te([x, w, y], "not a name")
    with pytest.raises(UsageError, match="two tensors of k are called 'y': name one of them otherwise"):
        kernel_from_te([x, w, y, te.compute((2, 4), lambda i, j: y[i, j] + 1.0, name="y")], "k")
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    with pytest.raises(UsageError, match="not a number"):
        kernel_from_te([a, te.compute((n,), lambda i: a[i] + 1.0)])
