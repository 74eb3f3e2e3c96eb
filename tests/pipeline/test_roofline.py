"""A roofline is the larger of two times: of the operations, and of the bytes from the level that holds them all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import te

from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.graph.program import Kernel, Param, Role, Rows
from edgetune.measure.peaks import Peaks
from edgetune.pipeline.select import roofline_of
from edgetune.target.target import load_target
from tests.sketch_samples import conv2d

PEAKS = Peaks(1e10, {"L1": 1e11, "L2": 5e10, "DRAM": 1e9})
TARGET = load_target("host").model_copy(update={"l1_bytes": 32768, "l2_bytes": 1 << 20})


def product(rows: int, depth: int, columns: int) -> Kernel:
    x, y = te.placeholder((rows, depth), name="x"), te.placeholder((depth, columns), name="y")
    k = te.reduce_axis((0, depth), name="k")
    z = te.compute((rows, columns), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="z")
    return kernel_from_te([x, y, z])


def scaled(length: int) -> Kernel:
    x = te.placeholder((length,), name="x")
    return kernel_from_te([x, te.compute((length,), lambda i: x[i] * 2.0, name="y")])


def test_a_product_is_limited_by_its_operations() -> None:
    found = roofline_of(product(64, 64, 64), PEAKS, TARGET)
    assert found.us == pytest.approx(2 * 64**3 / 1e10 * 1e6)
    assert found.limit == "peak, 10.0 GFLOP/s"


def convolution(size: int, channels: int) -> Kernel:
    """3x3, stride 1, with a border of zeros."""
    function = conv2d((size, size, channels), channels, tail="")
    roles: tuple[Role, ...] = ("input", "constant", "output")
    shapes = [tuple(int(extent) for extent in param.shape) for param in function.params]
    params = tuple(Param(role, shape, "float32", role) for role, shape in zip(roles, shapes, strict=True))
    return Kernel("conv", "0" * 64, function, params, ("conv",), 1, 1)


@pytest.mark.parametrize(("form", "tile"), [("winograd_f2", 2), ("winograd_f4", 4)])
@pytest.mark.parametrize("size", [16, 14])
def test_winograd_is_limited_by_its_own_products(form: str, tile: int, size: int) -> None:
    """(m + 2)^2 for each tile of m x m results, where the definition has 9 m^2; no time is below that."""
    kernel = convolution(size, 32)
    tiles = (-(-size // tile)) ** 2
    found = roofline_of(kernel, PEAKS, TARGET, form)
    assert found.us == pytest.approx(2 * tiles * (tile + 2) ** 2 * 32 * 32 / 1e10 * 1e6)
    assert found.limit == f"peak, 10.0 GFLOP/s for the products of {form}"
    assert found.us < roofline_of(kernel, PEAKS, TARGET).us


@pytest.mark.parametrize(("form", "planes"), [("direct", 9), ("winograd_f2", 16), ("winograd_f4", 36)])
def test_winograd_reads_its_own_weights(form: str, planes: int) -> None:
    found = roofline_of(convolution(4, 64), replace(PEAKS, flops=1e15), TARGET, form)
    size = 4 * (planes * 64 * 64 + 2 * 4 * 4 * 64)
    assert found.us == pytest.approx(size / 50.0 / 1e3)
    assert found.limit == "L2, 50.0 GB/s"


@pytest.mark.parametrize(
    ("length", "level", "rate"), [(4_000, "L1", 100.0), (100_000, "L2", 50.0), (200_000, "DRAM", 1.0)]
)
def test_few_operations_on_many_bytes_are_limited_by_memory(length: int, level: str, rate: float) -> None:
    found = roofline_of(scaled(length), replace(PEAKS, flops=1e12), TARGET)
    assert found.us == pytest.approx(8 * length / rate / 1e3)
    assert found.limit == f"{level}, {rate:.1f} GB/s"


def test_the_gaps_between_rows_are_not_read() -> None:
    kernel = scaled(4_000)
    read, written = kernel.params
    with_gaps = replace(kernel, params=(replace(read, rows=Rows(100, 400)), written))
    found = roofline_of(with_gaps, replace(PEAKS, flops=1e12), TARGET)
    assert found.us == pytest.approx((4 * 1_000 + 4 * 4_000) / 100.0 / 1e3)


def test_cold_caches_read_all_from_memory() -> None:
    cold = TARGET.model_copy(update={"caches": "cold"})
    assert roofline_of(scaled(100), PEAKS, cold).limit == "DRAM, 1.0 GB/s"
    assert roofline_of(scaled(100), PEAKS, TARGET).limit != "DRAM, 1.0 GB/s"
