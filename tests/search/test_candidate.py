"""Children of programs: crossover by node, mutation of the structure, and the count of programs that are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te
from tvm.s_tir import Schedule

from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.schedule.rules.derivation import derive
from edgetune.schedule.sketches import design_spaces, module_of, mutator_probs, postprocs, tvm_target
from edgetune.search.candidate import CandidateGenerator, DecisionVector
from edgetune.search.cost_model import CostModel
from edgetune.search.search import BEYOND_LIMITS, MADE, NO_DESIGN, REFUSED, AlgorithmsSearch, SearchSpace, TaskSearch
from edgetune.search.task import TuneTask
from edgetune.search.wiring import space_of
from edgetune.target.target import Target
from tests.sketch_samples import board, conv2d


def product_and_rows(size: int = 64) -> Any:
    """A B^T, and the largest element of each row of it: two blocks with decisions."""
    a, b = te.placeholder((size, size), name="a"), te.placeholder((size, size), name="b")
    depth, column = te.reduce_axis((0, size), name="k"), te.reduce_axis((0, size), name="r")
    products = te.compute((size, size), lambda i, j: te.sum(a[i, depth] * b[j, depth], axis=depth), name="products")
    rows = te.compute((size,), lambda i: te.max(products[i, column], axis=column), name="rows")
    return te.create_prim_func([a, b, rows])


@pytest.fixture(scope="module")
def function() -> Any:
    return product_and_rows()


@pytest.fixture(scope="module")
def space(function: Any) -> CandidateGenerator:
    return CandidateGenerator(design_spaces(function, board()), mutator_probs())


def sampled(space: CandidateGenerator, function: Any, design: int, seed: int) -> DecisionVector:
    return space.sample(design, module_of(function), np.random.default_rng(seed))


def test_a_child_of_two_takes_all_decisions_of_a_block_from_one_parent(
    space: CandidateGenerator, function: Any
) -> None:
    several = [n for n, design in enumerate(space.designs) if len({role.node for role in design.roles}) > 1]
    assert several, "no design has decisions in two blocks"
    whole = mixed = 0
    for seed in range(60):
        first, second = (sampled(space, function, several[0], 2 * seed + n) for n in (0, 1))
        child = space.cross(first, second, np.random.default_rng(seed))
        assert child is not None
        sides: dict[str, set[int]] = {}
        for role, a, b, got in zip(
            space.designs[several[0]].roles, first.decisions, second.decisions, child.decisions, strict=True
        ):
            assert got in (a, b)
            if a != b:
                sides.setdefault(role.node, set()).add(int(got == b))
        mixed += any(len(found) > 1 for found in sides.values())
        whole += len(sides) > 1 and all(len(found) == 1 for found in sides.values())
    assert whole > 20
    assert mixed > 5


@pytest.mark.long
@given(design=st.integers(0, 63), seed=st.integers(0, 2**31))
def test_a_changed_structure_keeps_decisions_of_the_same_role_and_can_be_replayed(design: int, seed: int) -> None:
    function = conv2d((16, 16, 16), 32)
    space = CandidateGenerator(design_spaces(function, board()), mutator_probs())
    parent = sampled(space, function, design % len(space.designs), seed)
    child = space.restructure(parent, module_of(function), np.random.default_rng(seed))
    assert child is not None
    assert child.design != parent.design
    own, other = space.designs[parent.design], space.designs[child.design]
    shared = [role for role in other.roles if role in own.roles]
    assert shared
    for role in shared:
        if own.roles.count(role) == other.roles.count(role) == 1:
            assert child.decisions[other.roles.index(role)] == parent.decisions[own.roles.index(role)]
    schedule = Schedule(module_of(function), seed=1)
    other.trace(child.decisions).apply_to_schedule(schedule, remove_postproc=True)


def test_a_single_design_has_no_other_structure() -> None:
    function = conv2d((16, 16, 16), 32)
    space = CandidateGenerator(design_spaces(function, board())[:1], mutator_probs())
    parent = sampled(space, function, 0, 1)
    assert space.restructure(parent, module_of(function), np.random.default_rng(1)) is None


def search_of(function: Any, scheduled: Any, target: Target) -> TaskSearch:
    """A search of `function` with the designs of `scheduled`; programs have to fit `target`."""
    designs = design_spaces(scheduled, board())
    space = SearchSpace(module_of(function), tvm_target(board()), designs, postprocs(target), mutator_probs())
    return TaskSearch("0" * 64, space, CostModel(1), 1)


def test_programs_that_are_made_are_counted(function: Any) -> None:
    search = search_of(function, function, board())
    proposed = search.propose(16, 1, ())
    assert search.counts[MADE] >= len(proposed) > 0


def test_programs_that_do_not_fit_the_target_are_counted(function: Any) -> None:
    search = search_of(function, function, board(vector_bits=64, registers=1))
    assert search.propose(16, 1, ()) == []
    assert search.counts[BEYOND_LIMITS] > 0
    assert search.counts[MADE] == 0


def test_programs_that_tvm_refuses_are_counted(function: Any) -> None:
    search = search_of(conv2d((8, 8, 8), 8), function, board())
    assert search.propose(16, 1, ()) == []
    assert search.counts[REFUSED] > 0


def test_designs_that_a_rule_refuses_are_counted_and_the_others_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule raises for one of the structures, as TVM does where a transformation does not apply."""
    x, y = te.placeholder((64, 64), name="x"), te.placeholder((64, 64), name="y")
    depth = te.reduce_axis((0, 64), name="k")
    products = te.compute((64, 64), lambda i, j: te.sum(x[i, depth] * y[j, depth], axis=depth), name="products")
    task = TuneTask(kernel_from_te([x, y, products], "product"))

    def refusing(sch: Any, stages: Any, structure: Any, decide: Any, core: Any) -> Any:
        if structure.chained:
            raise RuntimeError("ScheduleError: refused")
        return derive(sch, stages, structure, decide, core)

    whole = space_of(task, board())
    monkeypatch.setattr("edgetune.schedule.sketches.spaces.derive", refusing)
    fewer = space_of(task, board())
    search = AlgorithmsSearch("0" * 64, [fewer], CostModel(1), 1)
    assert whole.refused == 0
    assert fewer.refused == len(whole.designs) - len(fewer.designs) > 0
    assert search.counts == {NO_DESIGN: fewer.refused}
    assert search.propose(4, 1, ())
