"""Steps of indices along axes, against the values of the index at all places."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx

from edgetune.affine.domain import Domain
from edgetune.affine.steps import step_along, steps_in_blocks
from edgetune.affine.values import integers_at
from edgetune.tvm_types import Expr
from tests.index_samples import LANE, ROW, indices


@given(indices(), st.integers(2, 20), st.integers(1, 5))
def test_a_step_is_the_difference_of_neighbours(index: Expr, extent: int, rows: int) -> None:
    places = {LANE: np.arange(extent), ROW: np.arange(rows)[:, None]}
    values = integers_at(index, places)
    assert values is not None
    for domain in (Domain.of([(LANE, extent), (ROW, rows)]), None):
        step = step_along(index, LANE, domain)
        if step is not None:
            assert np.all(np.diff(np.broadcast_to(values, (rows, extent)), axis=1) == step)


@given(indices(), st.sampled_from([2, 4, 8]))
def test_steps_in_blocks_are_one_inside_of_each_block(index: Expr, block: int) -> None:
    values = integers_at(index, {LANE: np.arange(6 * block), ROW: np.asarray(3)})
    assert values is not None
    if steps_in_blocks(index, LANE, block):
        assert np.all(np.diff(np.broadcast_to(values, 6 * block).reshape(6, block), axis=1) == 1)


def test_what_is_known_of_a_domain_gives_more_steps() -> None:
    joined = tirx.floordiv(LANE, 8) * 8 + tirx.floormod(LANE, 8)
    assert step_along(joined, LANE, Domain.of([(LANE, 64)])) == 1
    assert step_along(tirx.floordiv(LANE, 8), LANE) is None
    assert step_along(tirx.floordiv(LANE, 8), LANE, Domain.of([(LANE, 8)])) == 0
    assert step_along(ROW * 3 - 2, LANE) == 0
    assert (step_along(LANE - 1, LANE), step_along(5 - 2 * LANE, LANE)) == (1, -2)
    assert steps_in_blocks(tirx.floordiv(LANE, 4) * 100 + tirx.floormod(LANE, 4), LANE, 4)
    assert not steps_in_blocks(tirx.floordiv(LANE, 4) * 100 + tirx.floormod(LANE, 4), LANE, 8)
