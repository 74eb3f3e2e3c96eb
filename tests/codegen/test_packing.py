"""Packing of weights: recipes of plain data that do in numpy what the schedule's blocks did."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from edgetune.codegen import PackedLayout, emit_kernel, split_packing
from edgetune.errors import KernelFailed
from tests import codegen_samples as samples
from tests.codegen_run import wide_target


def test_a_register_tile_packs_its_weights_by_output_block() -> None:
    module, layouts = split_packing(samples.register_tile(samples.convolution()))
    assert sorted(layouts) == [1, 2]
    weights = np.arange(32 * 9 * 8, dtype=np.int64).reshape(32, 3, 3, 8)
    packed = layouts[1].apply(weights)
    assert packed.shape == layouts[1].packed_shape
    np.testing.assert_array_equal(packed, weights.reshape(2, 16, 3, 3, 8).transpose(2, 3, 4, 0, 1))
    source = emit_kernel(module, wide_target(), "kernel")
    assert source.params[1].shape == packed.shape
    assert "layout" not in source.definition


def test_recipes_are_plain_data() -> None:
    _, layouts = split_packing(samples.register_tile(samples.convolution()))
    assert pickle.loads(pickle.dumps(layouts)) == layouts  # noqa: S301 - its own
    assert b"tvm" not in pickle.dumps(layouts)


def test_a_function_without_packing_is_left_alone() -> None:
    module = samples.module(samples.softmax())
    assert split_packing(module) == (module, {})


def test_what_no_element_reaches_is_zero() -> None:
    layout = PackedLayout(
        source_shape=(5,),
        packed_shape=(2, 4),
        extents=(8,),
        at=(("axis", 0),),
        to=(("//", ("axis", 0), ("const", 4)), ("%", ("axis", 0), ("const", 4))),
        guard=("<", ("axis", 0), ("const", 5)),
    )
    packed = layout.apply(np.arange(1, 6, dtype=np.float32))
    np.testing.assert_array_equal(packed, [[1, 2, 3, 4], [5, 0, 0, 0]])


def test_a_constant_of_another_shape_is_refused() -> None:
    _, layouts = split_packing(samples.register_tile(samples.convolution()))
    with pytest.raises(KernelFailed, match="cannot be packed"):
        layouts[2].apply(np.zeros(31, np.float32))


def test_a_layout_that_loses_an_element_is_refused() -> None:
    """TVM makes one of a constant of which only a part is read: `y[i, 3]` is element `(i * 4 + 3) % 31`."""
    axis = ("axis", 0)
    layout = PackedLayout((9,), (8,), (9,), (axis,), (("%", axis, ("const", 8)),))
    with pytest.raises(KernelFailed, match="two elements of a constant into one place"):
        layout.apply(np.arange(9, dtype=np.float32))


def test_an_element_may_have_several_places() -> None:
    """Overlapping vectors read an element twice."""
    at = ("%", ("axis", 0), ("const", 3))
    layout = PackedLayout((3,), (5,), (5,), (at,), (("axis", 0),))
    assert layout.apply(np.arange(3, dtype=np.float32)).tolist() == [0, 1, 2, 0, 1]
