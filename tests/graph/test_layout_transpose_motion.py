"""Transposes after reshapes: a shuffle of channels keeps one transpose, and what gains nothing stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph.test_program import assert_same, model_of, random


def _shuffle(groups: int, channels: int, size: int, perm: list[int]) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    generator = np.random.default_rng(2)
    constants = {
        "w1": random(generator, channels, 4, 1, 1),
        "shift": random(generator, 1, channels, 1, 1),
        "apart": np.array([1, groups, channels // groups, size, size]),
        "together": np.array([1, channels, size, size]),
        "w2": random(generator, 4, channels, 1, 1),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"]),
        helper.make_node("Add", ["a", "shift"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Reshape", ["c", "apart"], ["d"]),
        helper.make_node("Transpose", ["d"], ["e"], perm=perm),
        helper.make_node("Reshape", ["e", "together"], ["f"]),
        helper.make_node("Conv", ["f", "w2"], ["y"]),
    ]
    return nodes, constants


def _names(nodes: list[onnx.NodeProto], outputs: list[str], constants: dict[str, Any], size: int = 3) -> list[str]:
    program = assert_same(model_of(nodes, {"x": [1, 4, size, size]}, outputs, constants))
    return [kernel.name for kernel in program.kernels]


@pytest.mark.parametrize(("groups", "channels"), [(2, 6), (3, 6), (4, 12)])
def test_a_shuffle_moves_only_channels(groups: int, channels: int) -> None:
    nodes, constants = _shuffle(groups, channels, 3, [0, 2, 1, 3, 4])
    # The transposes are those of the input, of the shuffle, and of the output.
    names = _names(nodes, ["y"], constants)
    assert [name for name in names if "transpose" not in name] == ["conv2d_add_relu", "conv2d"]
    assert sum("transpose" in name for name in names) <= 3
    before = names.index("conv2d_add_relu")
    assert "transpose" in names[before + 1]
    assert names[before + 2].startswith("conv2d")


@pytest.mark.long
def test_a_shuffle_of_a_tensor_with_other_readers_is_right() -> None:
    nodes, constants = _shuffle(2, 6, 3, [0, 2, 1, 3, 4])
    for outputs in (["y", "c"], ["y", "d"], ["y", "e"], ["y", "f"]):
        _names(nodes, outputs, constants)


@pytest.mark.parametrize("perm", [[0, 3, 1, 2, 4], [0, 1, 3, 2, 4], [0, 4, 2, 1, 3], [0, 1, 4, 3, 2], [4, 3, 2, 1, 0]])
def test_transposes_of_the_parts_of_a_split_axis_are_right(perm: list[int]) -> None:
    nodes, constants = _shuffle(3, 6, 3, perm)
    extents = [[1, 3, 2, 3, 3][axis] for axis in perm]
    constants["together"] = np.array([1, int(np.prod(extents)) // 9, 3, 3])
    _names(nodes, ["y"], constants)


@pytest.mark.parametrize("shape", [[1, 6, 1, 1], [1, 1, 6, 1], [6, 1, 1, 1]])
def test_axes_of_extent_one_do_not_matter(shape: list[int]) -> None:
    constants = {"s": np.array([1, 2, 3, 1, 1]), "t": np.array(shape)}
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 3, 1, 2]),
        helper.make_node("Reshape", ["a", "s"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["c", "t"], ["d"]),
        helper.make_node("Transpose", ["d"], ["y"], perm=[0, 2, 3, 1]),
    ]
    assert_same(model_of(nodes, {"x": [1, 1, 1, 6]}, ["y"], constants))


def test_a_reshape_to_its_own_shape_is_nothing() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Reshape", ["a", "s"], ["y"])]
    program = assert_same(model_of(nodes, {"x": [2, 3]}, ["y"], {"s": np.array([2, 3])}))
    assert [kernel.name for kernel in program.kernels] == ["relu"]
    alone = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    assert_same(model_of(alone, {"x": [2, 3]}, ["y"], {"s": np.array([2, 3])}))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_bias_and_relu_stay_with_a_convolution_whose_result_has_the_order_of_the_model(rank: int) -> None:
    generator, taps = np.random.default_rng(4), [3] * rank
    constants = {"w": random(generator, 8, 4, *taps), "b": random(generator, 8)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1] * (2 * rank)),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    program = assert_same(model_of(nodes, {"x": [1, 4, *[5] * rank]}, ["y"], constants))
    names = [kernel.name for kernel in program.kernels]
    assert [name for name in names if "transpose" not in name] == [f"conv{rank}d_add_relu"]
