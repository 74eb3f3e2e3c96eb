"""Jobs of cells that go back: behind the others, and at once whatever the clock of their host says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from procrastinate.jobs import Job

from edgetune.farm.cell_jobs import BEHIND, Behind, CellLeft

JOB = Job(id=1, queue="q", lock="b", queueing_lock="c", task_name="t", priority=-3)


def test_a_cell_that_was_left_goes_back_behind_the_others_on_a_host_whose_clock_is_ahead_too() -> None:
    decision = Behind().get_retry_decision(exception=CellLeft("drained"), job=JOB)
    assert decision is not None
    assert decision.priority == -3 - BEHIND
    assert decision.retry_at is not None
    assert decision.retry_at < datetime.now(UTC) - timedelta(days=365), "the server's clock may be far behind"


@pytest.mark.parametrize("exception", [ValueError(), KeyboardInterrupt()])
def test_what_failed_for_another_reason_is_not_tried_again(exception: BaseException) -> None:
    assert Behind().get_retry_decision(exception=exception, job=JOB) is None
