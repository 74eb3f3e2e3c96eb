"""A line knows the variables in it: later passes move and drop lines by what they know, and never read C."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import pytest

from benchmarks.oracle.facts import target_of
from benchmarks.search.cases import expression_named
from benchmarks.search.expression import Expression
from edgetune.codegen import emit
from edgetune.codegen.lines import Line, addition, array, assignment, call, constant, declaration
from edgetune.codegen.text import Address, Code, Lvalue, Text, vector_literal, zero_vector
from edgetune.pipeline.link import print_kernels
from edgetune.pipeline.select import choose
from tests.te_programs import program_from_te

QUICK = ("new_softmax_of_7", "new_gamma", "new_determinants", "new_rope_of_pairs")
MORE = (
    *("new_integral", "new_half_chroma", "new_medians", "new_boxes_from_sums", "new_census", "new_four_bits"),
    *("new_weighted_histogram", "new_quantised_product", "new_bilateral", "new_soft_histogram", "new_option_prices"),
    *("new_local_maxima", "new_turned_scores", "new_embedding_bag", "new_banded_attention", "new_gelu_block"),
)
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")  # no part of a number such as 0x1.8p+3f


@pytest.mark.parametrize("width", [0, 128, 512])
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.long) for name in MORE)])
def test_lines_mention_exactly_the_variables_in_their_text(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels: list[Sequence[Line]] = []
    drop_unused: Callable[[Sequence[Line]], list[Line]] = emit.drop_unused

    def seen(lines: Sequence[Line]) -> list[Line]:
        kernels.append(lines)
        return drop_unused(lines)

    monkeypatch.setattr(emit, "drop_unused", seen)
    printed(expression_named(name), width)
    assert kernels
    for lines in kernels:
        assert list(wrong(lines)) == []


def wrong(lines: Sequence[Line]) -> Iterator[str]:
    names = frozenset().union(*(line.mentions for line in lines))
    for line in lines:
        if names.intersection(_WORD.findall(line.code)) != line.mentions or not line.writes <= line.mentions:
            yield str(line)


def printed(case: Expression, width: int) -> None:
    inputs = {name: (shape, "float32") for name, shape in case.inputs.items()}
    program = program_from_te(case.compute, inputs, case.values(case.constants), case.name)
    choices = choose(program, target_of(width), None, lambda _: None)
    print_kernels(program, choices, target_of(width), "lines", lambda _: None)


A, B, AT = (Code(name, (name,)) for name in "abi")


@pytest.mark.parametrize(
    ("line", "text", "writes", "in_memory"),
    [
        (constant("float", A, B), "const float a = b;", "a", False),
        (declaration("float", A), "float a;", "a", False),
        (array("float", A, 4), "float a[4];", "a", True),
        (assignment(Lvalue.of(A), Text(B)), "a = b;", "a", False),
        (assignment(Lvalue.element(A, AT), Text(B)), "a[i] = b;", "a", True),
        (addition(Lvalue.of(A), B), "a += b;", "a", False),
        (call("f", Lvalue.of(A).address, B), "f(&a, b);", "a", False),
        (call("f", Lvalue.element(A, AT).address, Lvalue.of(B).address), "f(&a[i], &b);", "ab", True),
        (call("f", Address.first(A), Code("&(f32x4){0}")), "f(a, &(f32x4){0});", "a", True),
    ],
)
def test_lines_know_what_they_write(line: Line, text: str, writes: str, *, in_memory: bool) -> None:
    assert (str(line), line.writes, line.in_memory) == (text, frozenset(writes), in_memory)


def test_vectors_know_that_they_are_literals() -> None:
    assert (zero_vector("f32x4").zero, vector_literal("f32x2", [A, B]).zero) == ("vector", "")
    assert vector_literal("f32x2", [A, B]).code == "(f32x2){a, b}"
