"""Estimated instructions: what compilers make of printed lines, and how far that lies from what a core executes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tvm import sym, te, tirx, topi

from benchmarks.oracle.facts import target_of
from edgetune.codegen.branch_shares import UNKNOWN, Iterations
from edgetune.codegen.instruction_estimate import estimated_instructions
from edgetune.codegen.lines import CLOSING, Line, addition, assignment, branch, call, constant, loop, variable
from edgetune.codegen.literals import digits
from edgetune.codegen.text import Code, Lvalue, Text, code, joined, operation
from edgetune.codegen.work import VECTOR_LOAD, SnippetName
from edgetune.graph.program import Kernel
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import estimated_instructions as of_schedule
from edgetune.schedule.guessed_schedule import guessed_schedule
from edgetune.target.target import Target, load_target
from tests.executed_instructions import executed
from tests.te_programs import program_from_te

ARM, X86 = "qemu-aarch64", "generic-x86_64"
X, Y, ROW, STEP = (Code(name, (name,)) for name in "xyij")


def estimate(lines: Sequence[Line], board: str = ARM) -> float:
    return estimated_instructions(lines, load_target(board))


def element(tensor: Code, index: Code, offset: int = 0) -> Lvalue:
    place = Text(index, index=True)
    return Lvalue.element(tensor, joined(place, "+", digits(offset)) if offset else place)


def value(tensor: Code, index: Code, offset: int = 0) -> Text:
    return Text(element(tensor, index, offset).value)


def counted(variable: Code, trips: int, *inside: Line, depth: int = 0) -> list[Line]:
    """A loop around lines."""
    head = loop(code("for (int32_t {0} = 0; {0} < {1}; {0}++) {{", variable, trips), variable, trips, trips)
    lines = (replace(line, depth=line.depth + depth + 1) for line in inside)
    return [replace(head, depth=depth), *lines, replace(CLOSING, depth=depth)]


def test_equal_loads_of_a_block_are_one() -> None:
    once = [assignment(element(Y, ROW), joined(value(X, ROW), "*", Text(Code("2.0f"))))]
    twice = [assignment(element(Y, ROW), joined(value(X, ROW), "*", value(X, ROW)))]
    assert estimate(once) == estimate(twice) == 3  # a load, a product, a store


def test_a_store_makes_a_later_load_another_one() -> None:
    load = [constant("float", Code(name, (name,)), value(X, ROW)) for name in "ab"]
    store = assignment(element(X, STEP), Text(Code("1.0f")))
    assert estimate([load[0], store, load[1]]) == estimate(load) + 2


def test_a_product_that_is_added_is_one_operation() -> None:
    acc = Lvalue.of("acc")
    assert estimate([addition(acc, joined(value(X, ROW), "*", value(Y, ROW)))]) == 3  # two loads


def test_what_does_not_change_in_a_loop_is_computed_once() -> None:
    acc = Lvalue.of("acc")
    moving = counted(ROW, 100, addition(acc, value(X, ROW)))
    fixed = counted(ROW, 100, addition(acc, value(X, STEP)))
    assert estimate(moving) - estimate(fixed) == 99


def test_a_place_that_a_loop_adds_to_stays_in_a_register() -> None:
    """Its load and its store come before and after the loop, unless the loop writes to another place too."""
    place = element(Y, STEP)
    add = assignment(place, joined(Text(place.value), "+", value(X, ROW)))
    other = assignment(element(Y, ROW), Text(Code("1.0f")))
    assert estimate(counted(ROW, 100, add)) < 2 + 100 * 4 + 2
    assert estimate(counted(ROW, 100, add, other)) > 100 * 6


def test_sums_without_a_register_are_loaded_and_stored() -> None:
    """A tile of 18 sums was chosen for 16 registers: it took 1.7 times what was estimated."""

    def sums(number: int, board: str) -> float:
        added = (addition(Lvalue.of(f"acc_{place}"), value(X, ROW, place)) for place in range(number))
        return estimate(counted(ROW, 1000, *added), board) / 1000

    assert sums(14, X86) - sums(8, X86) == 6 * 2
    assert sums(20, X86) - sums(14, X86) == 6 * 4
    assert sums(20, ARM) - sums(14, ARM) == 6 * 2


def test_what_an_iteration_declares_is_no_sum() -> None:
    """Variables of running extremes were counted as sums without a register."""

    def extremes(number: int) -> float:
        names = [Code(f"larger_{place}", (f"larger_{place}",)) for place in range(number)]
        lines = [variable("f32x8", name, value(X, ROW, place)) for place, name in enumerate(names)]
        calls = [call(SnippetName.of("vmax", "vmax:f32x8"), Lvalue.of(name).address) for name in names]
        return estimate(counted(ROW, 1000, *lines, *calls), X86) / 1000

    assert extremes(20) - extremes(14) == pytest.approx(extremes(14) - extremes(8))


def test_a_sum_that_is_stored_on_the_way_fills_no_vectors() -> None:
    acc = Lvalue.of("acc")
    add = assignment(acc, joined(Text(acc.value), "+", value(X, ROW)))
    walk = counted(ROW, 1000, add, assignment(element(Y, ROW), Text(acc.value)))
    assert estimate(walk) >= 3 * 1000


def test_short_loops_are_written_out() -> None:
    """Sums of an array that a short loop walks are registers of the loop around it."""
    place = element(Y, STEP)
    add = assignment(place, joined(Text(place.value), "+", value(X, STEP)))
    nest = counted(ROW, 100, *counted(STEP, 4, add))
    assert estimate(nest) < 100 * 4 * 2 + 100 * 2 + 50
    assert estimate(counted(ROW, 100, *counted(STEP, 400, add))) > 100 * 400 / 4 * 3


def test_a_value_that_is_used_once_needs_no_load_where_operands_may_lie_in_memory() -> None:
    vector = Text(operation("*(const f32x8u *)&{}[{}]", X, ROW, kind=VECTOR_LOAD))
    once = [addition(Lvalue.of("acc"), vector)]
    assert estimate(once, X86) == estimate(once, ARM) - 1
    twice = [*once, addition(Lvalue.of("other"), vector)]
    assert estimate(twice, X86) == estimate(twice, ARM)


def test_a_far_offset_is_an_addition() -> None:
    acc = Lvalue.of("acc")
    near, far = ([addition(acc, value(X, ROW, offset))] for offset in (16, 1 << 20))
    assert estimate(far, ARM) == estimate(near, ARM) + 1
    assert estimate(far, X86) == estimate(near, X86)


def test_a_branch_counts_by_its_share() -> None:
    acc = Lvalue.of("acc")
    body = replace(addition(acc, value(X, ROW)), depth=1)
    costs = [estimate([branch(Code("if (c) {"), share), body, CLOSING]) for share in (0.25, 0.5, 1.0)]
    assert costs[1] - costs[0] == pytest.approx(0.5)
    assert costs[2] - costs[1] == pytest.approx(1.0)


def test_calls_take_what_their_function_takes() -> None:
    """A polynomial takes some twenty operations; an instruction of the target takes one."""
    place = Lvalue.of("v").address
    polynomial = estimate([call(SnippetName.of("@exp_f32x4", "exp:f32x4"), place)])
    assert 15 < polynomial < 60
    assert estimate([call(SnippetName.of("@exp_each_f32x4x3", "exp_each:f32x4x3"), place)]) == 3 * polynomial
    assert estimate([call(SnippetName.of("@vmax_bound_f32x4", "vmax_bound:f32x4"), place)]) == 1
    assert estimate([call(SnippetName.of("@vmax_f32x4", "vmax:f32x4"), place)]) == 2
    assert estimate([call(SnippetName.of("@vmax_f32x8", "vmax:f32x8"), place)], X86) == 1


def test_the_share_of_a_condition_is_that_of_the_iterations() -> None:
    i, j, x = tirx.Var("i", "int32"), tirx.Var("j", "int32"), tirx.decl_buffer((8,), "float32", "x")
    iterations = Iterations()
    nothing = tirx.Evaluate(tirx.IntImm("int32", 0))
    for counter, extent in ((i, 8), (j, 4)):
        made = tirx.For(counter, tirx.IntImm("int32", 0), tirx.IntImm("int32", extent), tirx.ForKind.SERIAL, nothing)
        assert iterations.enter(made, sym.Analyzer()) == extent
    assert iterations.share(i > 0) == 7 / 8
    assert iterations.share(tirx.And(i > 0, j < 2)) == 7 / 16
    place = tirx.Var("place", "int32")
    iterations.bind(place, i * 2)
    assert iterations.share(place < 4) == 2 / 8
    assert iterations.share(x.vload([i]) > tirx.const(0.0, "float32")) == UNKNOWN


def rows_filter(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    j = te.reduce_axis((0, 9), "j")
    return te.compute((12, 56), lambda r, s: te.sum(x[r, s + j] * w[j], axis=j), "filtered")


def softmax(x: te.Tensor) -> te.Tensor:
    return topi.nn.softmax(x)


def product(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    return topi.nn.matmul(x, w)


def padded(x: te.Tensor) -> te.Tensor:
    return topi.nn.pad(x, (0, 1, 1, 0), (0, 1, 1, 0))


@pytest.mark.long
@pytest.mark.parametrize(
    ("expression", "shapes", "constants"),
    [
        (rows_filter, {"x": (12, 64)}, {"w": (9,)}),
        (softmax, {"x": (40, 64)}, {}),
        (product, {"x": (24, 48)}, {"w": (48, 64)}),
        (padded, {"x": (1, 14, 14, 24)}, {}),
        (topi.nn.relu, {"x": (40, 100)}, {}),
    ],
)
def test_estimates_lie_near_what_a_core_executes(
    expression: Callable[..., te.Tensor],
    shapes: dict[str, tuple[int, ...]],
    constants: dict[str, tuple[int, ...]],
    tmp_path: Path,
) -> None:
    generator = np.random.default_rng(0)
    weights = {name: generator.standard_normal(shape).astype("f4") for name, shape in constants.items()}
    inputs = {name: (shape, "float32") for name, shape in shapes.items()}
    program = program_from_te(expression, inputs, weights, "made")
    target = target_of(256)
    found = sum(instructions(program.kernels[one.kernel], target) for one in program.calls)
    assert 0.5 < found / executed(program, tmp_path) < 1.8


def instructions(kernel: Kernel, target: Target) -> float:
    schedule = guessed_schedule(kernel.function, target, kernel.scratch, FORMS).trace
    return of_schedule(kernel.function, schedule, target)
