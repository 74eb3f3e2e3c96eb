"""Kernels are read by people: offsets tell what they lead into, steps are added up, registers cleared together."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edgetune.codegen import emit_kernel, split_packing
from edgetune.codegen.dtypes import element
from edgetune.codegen.emit import chain_zeroes
from edgetune.codegen.lines import Line, assignment, declaration
from edgetune.codegen.literals import digits, float_literal, plus
from edgetune.codegen.text import Code, Lvalue, Text, code, joined, zero_vector
from tests import codegen_samples as samples
from tests.codegen_run import wide_target


def index(name: str) -> Text:
    return Text(Code(name, (name,)), index=True)


@given(st.lists(st.integers(-1000, 1000), max_size=6))
def test_steps_add_up_to_one_constant(steps: list[int]) -> None:
    text = index("at")
    for step in steps:
        text = plus(text, step, element("int32"))
    assert eval(text.code, {"at": 7}) == 7 + sum(steps)  # noqa: S307
    assert len(re.findall(r"\d+", text.code)) <= 1


def test_only_the_last_summand_is_added_to() -> None:
    a, b = index("a"), index("b")
    assert plus(joined(a, "-", joined(b, "*", digits(16))), 4, element("int32")).code == "a - b * 16 + 4"
    assert plus(joined(joined(a, "*", digits(3)), "-", digits(16)), 16, element("int32")).code == "a * 3"
    assert plus(joined(a, "+", joined(b, "+", digits(16))), 4, element("int32")).code == "a + b + 20"
    number = replace(joined(a, "+", digits(16)), index=False, summand=None)
    assert plus(number, 4, element("int32")).code == "a + 16 + 4"


def test_text_knows_its_variables() -> None:
    a, b = index("a"), index("b")
    assert code("x + {}[{}]", Code("y", "y"), joined(a, "*", b)).variables == {"a", "b", "y"}
    assert (a.variable, joined(a, "+", b).variable, digits(1).variable) == ("a", None, None)


def test_registers_are_cleared_together() -> None:
    def cleared(name: str, zero: Text, depth: int) -> Line:
        return replace(assignment(Lvalue.of(name), zero), depth=depth)

    lines = [replace(declaration("int32_t", Code("a", "a")), depth=1)]
    lines += [cleared(f"acc_{number}", zero_vector("f32x8"), 1) for number in range(20)]
    zero = float_literal(0.0, element("float32"))
    lines += [cleared("b", zero, 2), cleared("b", zero, 1), cleared("c", digits(0), 1), cleared("d", digits(0), 1)]
    found = [str(line) for line in chain_zeroes(lines)]
    assert found[0] == "    int32_t a;"
    assert found[-4:] == ["        b = 0.0f;", "    b = 0.0f;", "    c = 0;", "    d = 0;"]
    chains = found[1:-4]
    assert len(chains) == 2
    assert all(len(line) <= 120 for line in chains)
    names = [name for line in chains for name in line.strip().split(" = ")[:-1]]
    assert names == [f"acc_{number}" for number in range(20)]
    assert all(line.endswith(" = (f32x8){0};") for line in chains)


def test_offsets_are_called_after_what_they_lead_into() -> None:
    target = wide_target()
    module, _ = split_packing(samples.register_tile(samples.convolution(), lanes=16))
    definition = emit_kernel(module, target, "tile").definition
    assert "cse_v" not in definition
    assert "const int32_t x_at = " in definition
    assert re.search(r"\*\(const f32x16u \*\)&w\[\w*_at \+ 16\]", definition)
    assert all(len(line) <= 120 for line in definition.partition("{")[0].splitlines())
