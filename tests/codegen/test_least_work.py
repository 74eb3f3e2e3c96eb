"""What no schedule can do without: never more than there is, and nothing that a condition or a gap may leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.codegen.least_work import LeastWork, least_work
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import read_onnx
from edgetune.graph.partition import to_program
from edgetune.graph.program import Kernel
from edgetune.schedule.algorithms.catalogue import algorithms_among
from edgetune.schedule.algorithms.schedule_text import WINOGRAD
from edgetune.target.target import load_target


def kernels(
    tmp_path: Any, node: Any, shape: list[int], out: list[int], *weights: tuple[str, np.ndarray]
) -> list[Kernel]:
    """Kernels of a model of one node from x to y."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "one",
        [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, out)],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    path = tmp_path / "one.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return list(to_program(import_onnx(read_onnx(path))).kernels)


def work(kernel: Kernel) -> LeastWork:
    return least_work(kernel.function, [i for i, param in enumerate(kernel.params) if param.role == "output"])


def test_a_matrix_product_needs_all_of_it(tmp_path: Any) -> None:
    w = np.ones((32, 48), np.float32)
    (kernel,) = kernels(tmp_path, helper.make_node("MatMul", ["x", "w"], ["y"]), [16, 32], [16, 48], ("w", w))
    assert work(kernel) == LeastWork(16 * 32 * 48, 0, 4 * (16 * 32 + 32 * 48 + 16 * 48))


def test_padding_is_not_counted(tmp_path: Any) -> None:
    """Of the 9 x 16 products of a picture of 4 x 4 with a border, 100 are not with zero."""
    w = np.ones((8, 8, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    found = [k for k in kernels(tmp_path, node, [1, 8, 4, 4], [1, 8, 4, 4], ("w", w)) if k.macs]
    assert [k.macs for k in found] == [9 * 16 * 64]
    assert 0 < work(found[0]).float_multiply_adds <= 100 * 64


@pytest.mark.parametrize("stride", [2, 4])
def test_zeros_between_the_pixels_are_not_counted(tmp_path: Any, stride: int) -> None:
    """Of the products of a transposed convolution, those of 64 pixels with 16 weights are left, over all phases."""
    w = np.ones((8, 8, 4, 4), np.float32)
    pads = [2 - stride // 2] * 4
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[stride, stride], pads=pads)
    out = [1, 8, 8 * stride, 8 * stride]
    found = [work(k).float_multiply_adds for k in kernels(tmp_path, node, [1, 8, 8, 8], out, ("w", w)) if k.macs]
    assert 0 < sum(found) <= 64 * 16 * 64


def test_a_stride_reads_a_part_of_the_picture(tmp_path: Any) -> None:
    w = np.ones((8, 8, 1, 1), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2])
    (kernel,) = [k for k in kernels(tmp_path, node, [1, 8, 8, 8], [1, 8, 4, 4], ("w", w)) if k.macs]
    needed = work(kernel)
    assert needed.float_multiply_adds == 64 * 16
    assert 4 * (64 + 8 * 16) <= needed.bytes_touched <= 4 * (8 * 16 + 64 + 8 * 16)


def test_a_form_with_fewer_products_needs_fewer(tmp_path: Any) -> None:
    w = np.ones((16, 16, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    (kernel,) = [k for k in kernels(tmp_path, node, [1, 16, 16, 16], [1, 16, 16, 16], ("w", w)) if k.macs]
    forms = list(algorithms_among(kernel.function, WINOGRAD))
    assert forms
    for form in forms:
        needed = least_work(form.function, [len(kernel.params) - 1])
        assert needed.float_multiply_adds < work(kernel).float_multiply_adds / 2
        assert needed.bytes_touched > 0


def test_who_gathers_need_not_read_everything(tmp_path: Any) -> None:
    index = np.zeros(4, np.int64)
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    for kernel in kernels(tmp_path, node, [1000, 16], [4, 16], ("i", index)):
        assert work(kernel).bytes_touched <= 4 * (4 * 16 + 4 * 16) + 8 * 4


def test_a_cycle_does_no_more_than_any_core() -> None:
    target = load_target("rpi4")
    assert LeastWork(1600, 0, 0).cycles(target) == pytest.approx(100)
    assert LeastWork(0, 1600 * 8, 0).cycles(target) == pytest.approx(100)
    assert LeastWork(0, 0, 6400).cycles(target) == pytest.approx(100)
    assert LeastWork(0, 0, 25600).cycles(load_target("generic-x86_64")) == pytest.approx(100)
