"""Kernels in CUDA are read by people: lengths, names, no idle variable, values where variables are declared."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import onnx
import pytest

from edgetune.codegen.cuda.emit import with_first_values
from edgetune.codegen.dtypes import element
from edgetune.codegen.lines import CLOSING, Line, array, assignment, branch, declaration, loop
from edgetune.codegen.literals import float_literal
from edgetune.codegen.text import Code, Lvalue, Text, code
from edgetune.pipeline.model_formats import read_model
from tests.cuda.cpu_check import checked

MODEL = Path(__file__).parents[3] / "examples/models/ds_cnn.onnx"
KERNELS = 6
_DECLARED = re.compile(
    r"^ *(?:const )?(?:__shared__ (?:__align__\(\d+\) )?)?(?:u?int\d+_t|float|half) (\w+)", re.MULTILINE
)


@cache
def definition(number: int) -> str:
    return checked(read_model(MODEL).program().kernels[number]).source.definition


@pytest.mark.long
@pytest.mark.parametrize("number", range(KERNELS))
def test_lines_are_short_and_kernels_fit_two_pages(number: int) -> None:
    lines = definition(number).splitlines()
    assert max(map(len, lines)) <= 120
    assert len(lines) <= 120


@pytest.mark.parametrize("number", range(KERNELS))
def test_every_variable_is_read_and_has_a_name_of_the_field(number: int) -> None:
    text = definition(number)
    names = _DECLARED.findall(text)
    assert "thread_x" in names
    for name in names:
        assert len(re.findall(rf"\b{name}\b", text)) > 1, name
        assert not re.search(r"cse|red_buf|pad_temp|reindex|_o$|^T_|_fused", name), name


@pytest.mark.parametrize("number", range(KERNELS))
def test_a_scalar_gets_its_value_where_it_is_declared(number: int) -> None:
    assert re.findall(r"^ *float \w+;$", definition(number), re.MULTILINE) == []


def test_copies_are_called_after_their_tensors() -> None:
    assert set(re.findall(r"__shared__ .* (\w+)\[", definition(0))) == {"input_shared", "weights_shared"}


def test_a_condition_of_some_threads_stands_once() -> None:
    """Sums are joined by the first row of threads: in one block of braces, not in one for each statement."""
    assert definition(3).count("if (thread_y == 0) {") == 1


def test_a_sum_begins_before_its_loops_also_where_some_threads_are_idle(tmp_path: Path) -> None:
    """Three outputs, 32 threads: the condition stood between the loops and the first value of the sum."""
    ends = [onnx.helper.make_tensor_value_info(n, 1, [1, 3, size, size]) for n, size in (("x", 2), ("y", 1))]
    pool = onnx.helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[3, 3], pads=[1, 1, 0, 0])
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([pool], "pool", ends[:1], ends[1:])), tmp_path / "p.onnx")
    text = checked(read_model(tmp_path / "p.onnx").program().kernels[0]).source.definition
    assert "if (thread_x < 3) {\n        float acc = 0.0f;\n        for (" in text


def test_a_product_of_an_index_has_no_name_of_its_own() -> None:
    assert not any(re.search(r"= \w+ \* \d+;$", line) for line in definition(0).splitlines())


def test_adjacent_elements_are_read_and_written_as_vectors() -> None:
    """Copies into shared memory, operands of the epilogue, and the result; nvcc makes vectors of the sums itself."""
    text = definition(2)
    assert text.count("*(float4 *)&input_shared[") == text.count("*(const float4 *)&input[") == 1
    assert text.count("*(float4 *)&weights_shared[") == text.count("*(const float4 *)&weights[") == 1
    assert "*(float4 *)bias_values = *(const float4 *)&bias[" in text
    assert text.count("*(float4 *)&output[") == 1


@pytest.mark.long
def test_parameters_that_are_vectors_tell_their_alignment() -> None:
    kernel = read_model(MODEL).program().kernels[2]
    assert [param.alignment for param in checked(kernel).source.params] == [16, 16, 16, 16]


@pytest.mark.long
def test_a_part_of_a_tensor_that_is_not_aligned_is_read_element_by_element() -> None:
    kernel = replace(read_model(MODEL).program().kernels[2], unaligned=(0, 3))
    source = checked(kernel).source
    assert [param.alignment for param in source.params] == [4, 16, 16, 4]
    assert not re.search(r"float4 \*\)&(input|output)\b", source.definition)


def test_a_value_is_not_moved_into_braces_that_a_later_use_is_outside_of() -> None:
    acc, zero = Code("acc", ("acc",)), float_literal(0.0, element("float32"))
    inside = [branch(Code("if (thread_x == 0) {")), replace(assignment(Lvalue.of(acc), zero), depth=1), CLOSING]
    after = assignment(Lvalue.element(Code("output", ("output",)), 0), Text(acc))
    lines = [declaration("float", acc), *inside, after]
    assert with_first_values(lines) == lines


def test_an_array_of_which_a_loop_clears_a_part_keeps_the_loop() -> None:
    assert with_first_values(loop_of_zeroes(2)) == loop_of_zeroes(2)
    assert [str(line) for line in with_first_values(loop_of_zeroes(4))] == ["float acc[4] = {};"]


def loop_of_zeroes(count: int) -> list[Line]:
    acc, i = (Code(name, (name,)) for name in ("acc", "i"))
    cleared = assignment(Lvalue.element(acc, i), float_literal(0.0, element("float32")))
    head = loop(code("for (int32_t {0} = 0; {0} < {1}; {0}++) {{", i, count), Code(i), count, count)
    return [array("float", acc, 4), head, replace(cleared, depth=1), CLOSING]
