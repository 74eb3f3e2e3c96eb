"""Operations and bytes of kernels are those of their definitions."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from tvm import te, tirx, topi

from benchmarks.search.cases import expression_named
from edgetune.codegen.operations import operations, polynomial_operations, tensor_bytes
from tests.sketch_samples import prim_func


@pytest.mark.parametrize(
    "name",
    ["c2d_2_b1", "gmm_2_b1", "dep_2_b1", "new_gram", "new_l1_distances", "new_max_plus", "new_middle_softmax"],
)
def test_they_are_what_a_person_counted(name: str) -> None:
    case = expression_named(name)
    inputs = [te.placeholder(shape, name=one) for one, shape in (*case.inputs.items(), *case.constants.items())]
    function = te.create_prim_func([*inputs, case.compute(*inputs)])
    assert operations(function) == case.operations
    assert tensor_bytes(function) == case.bytes_touched


def elementwise(value: Any) -> int:
    x = te.placeholder((10,), name="x")
    return operations(prim_func([x], te.compute((10,), lambda i: value(x, i), name="y"))) // 10


def test_indices_and_conditions_do_not_count_and_the_longer_branch_does() -> None:
    assert elementwise(lambda x, i: x[i]) == 0
    assert elementwise(lambda x, i: x[9 - i]) == 0
    assert elementwise(lambda x, i: tirx.if_then_else(i * 3 + 1 < 9, x[i] * 2.0 + 1.0, x[i])) == 2
    assert elementwise(lambda x, i: tirx.Select(x[i] + 1.0 < 9.0, x[i], x[i] - 3.0)) == 1


def test_functions_count_as_our_polynomials() -> None:
    """Additions and multiplications of `polynomials._EXP_IN_RANGE`, and the addition to its exponent."""
    assert polynomial_operations("exp") == 20
    assert elementwise(lambda x, i: tirx.exp(x[i])) == 20
    assert elementwise(lambda x, i: tirx.sqrt(x[i]) + 1.0) == 2
    assert polynomial_operations("sigmoid") == 22
    assert elementwise(lambda x, i: te.power(x[i], 2.0)) == 1


def test_of_a_lookup_table_only_the_rows_count_that_are_read() -> None:
    table, at = te.placeholder((1000, 64), name="table"), te.placeholder((3,), "int32", name="at")
    function = prim_func([table, at], topi.take(table, at, axis=0))
    assert tensor_bytes(function) == 4 * (prod((3, 64)) * 2 + 3)
