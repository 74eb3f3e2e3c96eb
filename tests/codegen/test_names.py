"""Names in kernels: loops are called after axes, registers by their place in a tile, buffers without TVM's words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tvm import te

from edgetune.codegen import emit_kernel
from edgetune.codegen.axes import axes_of
from edgetune.codegen.line_breaks import break_line
from edgetune.codegen.names import Names, plain_name
from edgetune.codegen.register_tiles import tile_places
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.default_schedule import default_trace
from edgetune.target.target import load_target
from tests.codegen_run import compile_strictly, wide_target
from tests.sketch_samples import conv2d, dense, prim_func


def test_the_axes_of_operators_have_the_words_of_their_field() -> None:
    assert ("n", "oh", "ow", "oc", "kh", "kw", "ic") in axes_of(conv2d((8, 8, 4), 32)).values()
    assert ("m", "n", "k") in axes_of(dense(4, 8, 16)).values()


def test_the_loops_of_a_kernel_are_called_after_axes_and_none_hides_another() -> None:
    function, target = conv2d((16, 16, 8), 64), load_target("rpi4")
    source = emit_kernel(apply_schedule(function, default_trace(function, target)[0]).module, target, "conv")
    loops = re.findall(r"^( *)for \(int32_t (\w+) =", source.definition, re.MULTILINE)
    axes = {"n", "oh", "ow", "pixel", "oc", "kh", "kw", "ic"}
    assert {name.removesuffix("_o").removesuffix("_i").removesuffix("_m") for _, name in loops} <= axes
    around: list[tuple[str, str]] = []
    for indent, name in loops:
        around = [(outer, other) for outer, other in around if len(outer) < len(indent)]
        assert name not in [other for _, other in around]
        around.append((indent, name))


@pytest.mark.parametrize(
    ("pieces", "shape", "endings"),
    [
        ({0: 4, 4: 4, 8: 4, 12: 4}, [1, 2, 8], ["_0_0", "_0_1", "_1_0", "_1_1"]),
        ({0: 4, 4: 4}, [1, 8], ["_0", "_1"]),  # one line
        ({0: 4, 4: 4}, [2, 4], ["_0", "_1"]),
        ({0: 4, 6: 2}, [2, 6], ["_0", "_1"]),
        ({4: 4}, [2, 6], []),  # a vector of two rows is no part of a tile
        ({0: 4}, [], []),
    ],
)
def test_registers_know_their_row_and_column(pieces: dict[int, int], shape: list[int], endings: list[str]) -> None:
    assert list(tile_places(pieces, shape).values())[: len(endings) or None] == endings


@pytest.mark.parametrize(
    ("buffer", "plain"),
    [
        ("conv2d_nhwc_intermediate_local", "conv2d"),
        ("T_softmax_maxelem.rf_local", "softmax_max_lanes"),
        ("T_matmul_NN_intermediate_local", "matmul"),
        ("scores", "scores"),
    ],
)
def test_buffers_have_plain_names(buffer: str, plain: str) -> None:
    assert plain_name(buffer) == plain


def test_a_name_is_free_for_a_loop_only_after_the_loop_that_had_it() -> None:
    names = Names(["kh"])
    assert [names.loop("kh"), names.loop("oh"), names.loop("oh")] == ["kh_1", "oh", "oh_1"]
    names.release("oh")
    assert names.loop("oh") == "oh"


def test_a_long_line_is_broken_outside_brackets() -> None:
    line = "    sum = first(a, b, c) + second(d, e, f);"
    assert break_line(line, 30) == ["    sum = first(a, b, c)", "        + second(d, e, f);"]
    assert break_line(line, 120) == [line]
    for whole in ("#define SUM(a, b) ((a) + (b))", '    call("one, two", three);'):
        assert break_line(whole, 20) == [whole]


def test_a_parameter_that_only_a_number_seems_to_mention_is_unused(tmp_path: Path) -> None:
    x, unused = (te.placeholder((8,), name=name) for name in ("x", "x1"))
    y = te.compute((8,), lambda i: te.min(x[i], te.max_value("float32")), name="y")
    target = wide_target(256)
    function = prim_func([x, unused], y)
    source = emit_kernel(apply_schedule(function, default_trace(function, target)[0]).module, target, "kernel")
    assert "0x1." in source.definition
    compile_strictly(source, target, tmp_path, "gcc")
