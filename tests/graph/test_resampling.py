"""Resizing by tables means what TVM's operator means, in either layout, and a build has it for every size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from edgetune.codegen.emit import emit_kernel
from edgetune.graph.evaluate import evaluate
from edgetune.graph.kernels import plain_function
from edgetune.graph.resampling import resize_by_tables
from edgetune.graph.rewrite import constant, rewrite
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.tvm_types import PrimFunc
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly

MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
METHODS = ("nearest_neighbor", "linear", "cubic")


def resized(layout: str, old: tuple[int, int], new: tuple[int, int], **attributes: Any) -> tvm.IRModule:
    """A Relax function of two images with five channels that resizes them."""
    shape = (2, 5, *old) if layout == "NCHW" else (2, *old, 5)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.image.resize2d(x, new, layout=layout, **attributes))
        builder.emit_func_output(y)
    return builder.get()


def kernel(module: tvm.IRModule) -> tuple[PrimFunc, list[np.ndarray]]:
    """The only kernel of a module, and the constants that it is called with."""
    module = relax.transform.LegalizeOps()(module)
    function = next(one for one in module.functions.values() if not isinstance(one, relax.Function))
    call = module["main"].body.blocks[0].bindings[0].value
    values = (constant(one) for one in call.args[1])
    return function, [value for value in values if value is not None]


@pytest.mark.long
@costly(20)
@given(
    st.sampled_from(["NCHW", "NHWC"]),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.sampled_from(METHODS),
    st.sampled_from(MODES),
    st.sampled_from(ROUNDINGS),
)
def test_tables_mean_what_the_operator_means(
    layout: str, old: tuple[int, int], new: tuple[int, int], method: str, mode: str, rounding: str
) -> None:
    """The nearest elements are the same ones; sums differ by roundings."""
    if mode == "align_corners" and 1 in new:
        return  # TVM divides by zero
    module = resized(
        layout, old, new, method=method, coordinate_transformation_mode=mode, rounding_method=rounding, cubic_alpha=-0.6
    )
    changed = rewrite(module, resize_by_tables)
    function, tables = kernel(changed)
    assert tables or method == "nearest_neighbor", "the operator has become a kernel that reads tables"
    theirs, _ = kernel(module)
    random = np.random.default_rng(0)
    x = random.standard_normal([int(extent) for extent in theirs.params[0].shape]).astype("float32")
    shape = (2, 5, *new) if layout == "NCHW" else (2, *new, 5)
    [found] = evaluate(function, [x, *tables], [(shape, "float32")])
    [wanted] = evaluate(theirs, [x], [(shape, "float32")])
    if method == "nearest_neighbor":
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, atol=2e-5)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("method", METHODS)
def test_default_schedules_keep_the_order_of_tables(layout: str, method: str, tmp_path: Path) -> None:
    """Tables are constants of two axes. Read at several places for one result, they must not be packed."""
    changed = rewrite(resized(layout, (32, 20), (75, 33), method=method), resize_by_tables)
    function, tables = kernel(changed)
    plain, target = plain_function(function, [False, *[True] * len(tables)]), wide_target(256)
    shape = (2, 5, 75, 33) if layout == "NCHW" else (2, 75, 33, 5)
    x = np.random.default_rng(1).standard_normal((2, 5, 32, 20) if layout == "NCHW" else (2, 32, 20, 5))
    arguments = [x.astype("float32"), *tables]
    source = emit_kernel(replay(plain, default_trace(plain, target)[0]), target, "k")
    compile_strictly(source, target, tmp_path, "gcc")
    zeros = np.zeros(shape, "float32")
    found = run_kernel(source, target, [*arguments, zeros], tmp_path, extra=SANITIZERS)[-1]
    [wanted] = evaluate(function, arguments, [(shape, "float32")])
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_regions_and_exclusions_stay_with_the_operator() -> None:
    for attributes in ({"coordinate_transformation_mode": "tf_crop_and_resize"}, {"cubic_exclude": 1}):
        module = resized("NHWC", (4, 4), (8, 8), method="cubic", **attributes)
        assert tvm_ffi.structural_equal(rewrite(module, resize_by_tables), module)
