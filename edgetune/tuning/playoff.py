"""Who is compared again at the end of a search."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.tuning.progress import TaskProgress
from edgetune.tuning.records import Record
from edgetune.tuning.records.ranking import sweeps


def contenders(tasks: Sequence[TaskProgress], each: int, total: int) -> list[list[Record]]:
    """Groups of records of one task that may be its fastest, tasks that matter most first, `total` at most.

    A rival is among the `each` fastest, and its confidence interval reaches below that of the fastest. A task
    with one such record, or whose records were all compared before or are exact, needs no comparison.
    """
    groups = []
    for progress in tasks:
        fastest = progress.fastest(max(each, 0))
        if not fastest:
            continue
        limit = fastest[0].ci_high_ns or 0.0
        rivals = [record for record in fastest if (record.ci_low_ns or 0.0) <= limit]
        exact = all(record.ci_low_ns == record.ci_high_ns for record in rivals)
        if len(rivals) > 1 and not exact and not all(map(sweeps, rivals)):
            groups.append((-progress.task.kernel.weight * (progress.best_ns or 0.0), rivals))
    chosen, left = [], total
    for _, rivals in sorted(groups, key=lambda group: group[0]):
        if len(rivals) <= left:
            chosen.append(rivals)
            left -= len(rivals)
    return chosen
