"""Which record a package takes when its weights come from memory in every run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tvm import te

from edgetune.codegen.prefetch.weights_l2 import ANNOTATION
from edgetune.events import Event
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.graph.partition import to_program
from edgetune.graph.program import Buffer, Call, Kernel, Program
from edgetune.pipeline.in_model_cost import streams
from edgetune.pipeline.select import choose
from edgetune.records import Record, RecordStore
from edgetune.schedule.algorithms.schedule_text import DIRECT, algorithm_of, trace_text
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.kernel_spec import kernel_spec
from edgetune.schedule.sketches.decisions import Chosen
from edgetune.schedule.sketches.spaces import postprocs, tile_of, tiled
from edgetune.schedule.sketches.variants import Variant
from edgetune.schedule.source import make_source
from edgetune.search.migrate import record_key
from edgetune.target.target import Target, load_target
from tests.graph.test_program import model_of
from tests.search.test_loop import timed

WEIGHTS = (128, 256)
WAITED_NS = 4 * 128 * 256 / 8  # at 8 GB/s, unless they are prefetched


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target("generic-x86_64")


def product(depth: int, columns: int, rows: int = 49) -> Kernel:
    x, w = te.placeholder((rows, depth), name="x"), te.placeholder((depth, columns), name="w")
    k = te.reduce_axis((0, depth), name="k")
    y = te.compute((rows, columns), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="product")
    return kernel_from_te([x, w, y], "product", constants=[w])


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return product(*WEIGHTS)


def program(kernel: Kernel, constant_bytes: int) -> Program:
    """A program whose constants are so large; only these and its kernel are asked."""
    buffers = (
        Buffer(0, "x", (49, WEIGHTS[0]), "float32", "input"),
        Buffer(1, "w", WEIGHTS, "float32", "constant"),
        Buffer(2, "y", (49, WEIGHTS[1]), "float32", "output"),
    )
    constants = {1: np.zeros(constant_bytes, np.uint8)}
    return Program("p", (), (), buffers, (kernel,), (Call(0, (0, 1, 2), "product"),), constants, "")


def record(kernel: Kernel, target: Target, median_ns: float, *, streamed: bool, sizes: str = "", **more: Any) -> Record:
    """What was measured of the fixed schedule, or of a register tile with these `sizes`."""
    key = record_key(kernel, target)
    trace = default_trace(kernel.function, target, streamed=streamed)[0] if not sizes else tile(kernel, target, sizes)
    assert (ANNOTATION in trace) == streamed
    text = make_source(kernel_spec(kernel, 0), trace, target).unit
    values: dict[str, Any] = {
        "workload": key.workload, "workload_name": "p", "target": "t", "target_fingerprint": key.target_fingerprint,
        "toolchain": key.toolchain, "codegen_version": key.codegen_version, "board": "b", "status": "ok",
        "tool_version": "1", "candidate": hashlib.sha256(text.encode()).hexdigest(), "trace": trace,
        **timed((median_ns,) * 3), **more,
    }  # fmt: skip
    return Record(**values)


@pytest.mark.parametrize(
    ("constant_bytes", "slower_ns", "early"),
    [
        (1 << 24, WAITED_NS / 2, True),  # less than what it saves of the wait, three quarters
        (1 << 24, WAITED_NS, False),
        (1 << 10, WAITED_NS / 2, False),  # these weights stay in a cache
    ],
)
def test_weights_asked_for_early_are_worth_what_they_save(
    kernel: Kernel, target: Target, tmp_path: Path, constant_bytes: int, slower_ns: float, *, early: bool
) -> None:
    events: list[Event] = []
    with RecordStore.open(tmp_path / "db") as store:
        store.add(record(kernel, target, 1e5, streamed=False))
        store.add(record(kernel, target, 1e5 + slower_ns, streamed=True))
        (choice,) = choose(program(kernel, constant_bytes), target, store, events.append)
    assert (ANNOTATION in choice.trace) == early
    assert ("with weights from memory" in choice.provenance.why) == early
    assert not events


def tile(kernel: Kernel, target: Target, sizes: str) -> str:
    found = tile_of(kernel.function, target)
    assert found is not None
    chosen = Chosen(dict(zip(("pixel", "vectors"), map(int, sizes.split("x")), strict=True)))
    sch = tiled(kernel.function, found[1], Variant(("channel", "pixel"), prefetch_weights_l2=True), chosen, target)
    sch.enter_postproc()
    assert all(post.apply(sch) for post in postprocs(target))
    return trace_text(sch.trace)


def test_a_single_block_of_channels_asks_for_no_other(target: Target, tmp_path: Path) -> None:
    """All its channels are in one tile: the annotation is there, and the C has no request."""
    narrow = product(1024, 8 * target.vector_bits // 256)
    with RecordStore.open(tmp_path / "db") as store:
        store.add(record(narrow, target, 1e5, streamed=True, sizes="7x1"))
        (choice,) = choose(program(narrow, 1 << 24), target, store, lambda _: None)
        assert "__builtin_prefetch" not in make_source(kernel_spec(narrow, 0), choice.trace, target).unit
        store.add(record(narrow, target, 1e5 - 1, streamed=False))
        (choice,) = choose(program(narrow, 1 << 24), target, store, lambda _: None)
    assert ANNOTATION not in choice.trace


@pytest.mark.parametrize("constant_bytes", [1 << 10, 1 << 24])
def test_without_records_weights_from_memory_are_asked_for(kernel: Kernel, target: Target, constant_bytes: int) -> None:
    (choice,) = choose(program(kernel, constant_bytes), target, None, lambda _: None)
    assert (ANNOTATION in choice.trace) == (constant_bytes > target.l2_bytes)


@pytest.mark.parametrize(
    ("columns", "threads", "form"),
    [
        (1001, 1, "vectors_256"),
        (1001, 2, "vectors_256"),  # eight times as many vectors, shared by two, are no gain
        (1004, 2, "vectors_256"),
        (1004, 4, DIRECT),  # twice as many, shared by four, are one
    ],
)
def test_one_row_of_whole_vectors_is_not_shared_by_threads(
    target: Target, columns: int, threads: int, form: str
) -> None:
    row = product(2048, columns, rows=1)
    (choice,) = choose(program(row, 1 << 10), target, None, lambda _: None, threads=threads)
    assert (choice.provenance.form, algorithm_of(choice.trace)) == (form, form)


@pytest.mark.parametrize(
    ("threads", "form"),
    [
        (1, "vectors_256+tiles_10"),
        pytest.param(8, "vectors_256", marks=pytest.mark.long),
    ],
)
def test_threads_share_queries_rather_than_tiles_that_overlap(target: Target, threads: int, form: str) -> None:
    """One head has no other loop to share, and no tile divides 197 queries."""
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    shapes = {"q": [1, 197, 32], "k": [1, 32, 197], "v": [1, 197, 64]}
    one_head = to_program(import_onnx(model_of(nodes, shapes, ["y"], {})))
    (choice,) = choose(one_head, target, None, lambda _: None, threads=threads)
    assert algorithm_of(choice.trace) == form


def test_caches_that_are_swept_and_emulators_say_nothing_of_weights_in_caches(kernel: Kernel, target: Target) -> None:
    large = program(kernel, 1 << 24)
    assert streams(large, target)
    for changes in ({"caches": "cold"}, {"emulated": True}, {"l2_bytes": 1 << 25}):
        assert not streams(large, target.model_copy(update=changes))


LIMITS = {"peak_gflops": 50.0, "l1_gb_per_s": 100.0, "l2_gb_per_s": 80.0, "dram_gb_per_s": 2.0}


@pytest.mark.parametrize(
    ("environment", "changed", "least_us", "limit"),
    [
        (LIMITS, {}, 2 * 49 * 128 * 256 / 50e3, "peak, 50.0 GFLOP/s"),
        (LIMITS | {"l2_gb_per_s": 1.0}, {}, 4 * (49 * 128 + 128 * 256 + 49 * 256) / 1e3, "L2, 1.0 GB/s"),
        (LIMITS, {"caches": "cold"}, 4 * (49 * 128 + 128 * 256 + 49 * 256) / 2e3, "DRAM, 2.0 GB/s"),
        (LIMITS | {"l1_gb_per_s": -1.0}, {}, None, ""),
        (LIMITS | {"clock": "instructions"}, {}, None, ""),
        ({}, {}, None, ""),
    ],
)
def test_a_record_with_the_limits_of_its_core_gives_the_kernel_a_roofline(
    kernel: Kernel, target: Target, tmp_path: Path, environment: dict[str, Any], changed: dict[str, Any],
    least_us: float | None, limit: str,
) -> None:  # fmt: skip
    target = target.model_copy(update=changed)
    with RecordStore.open(tmp_path / "db") as store:
        store.add(record(kernel, target, 1e5, streamed=False, environment=environment))
        (choice,) = choose(program(kernel, 1 << 10), target, store, lambda _: None)
    found = choice.provenance
    assert found.roofline_us == (None if least_us is None else pytest.approx(least_us, rel=1e-3))
    assert found.roofline_limit == limit
    assert found.predicted_share is None


def test_a_kernel_without_a_record_has_a_predicted_share(kernel: Kernel, target: Target) -> None:
    (choice,) = choose(program(kernel, 1 << 10), target, None, lambda _: None)
    share = choice.provenance.predicted_share
    assert share is not None
    assert 0.5 < share <= 1
    assert choice.provenance.roofline_us is None
