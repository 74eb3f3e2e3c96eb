"""A roofline is the larger of two times: of the operations, and of the bytes from the level that holds them all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import te

from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.graph.program import Kernel, Rows
from edgetune.measure.peaks import Peaks
from edgetune.pipeline.select import roofline_of
from edgetune.target.target import load_target

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
