"""Proposes programs for one task in all its forms: each form is searched for itself, the fast ones more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from edgetune.tuning.cost_model import CostModel
from edgetune.tuning.forms.schedule_text import DIRECT, form_and_trace, schedule_text
from edgetune.tuning.search import SearchOptions, SearchSpace, TaskSearch
from edgetune.tuning.seeds import derive_seed


class FormsSearch:
    """A `TaskSearch` for each of `spaces`, the direct form's first; texts of schedules go in and come out."""

    def __init__(
        self,
        workload: str,
        spaces: Sequence[SearchSpace],
        model: CostModel,
        seed: int,
        options: SearchOptions | None = None,
    ) -> None:
        self._spaces = spaces
        self._searches = {
            space.form: TaskSearch(
                workload,
                space,
                model,
                seed if space.form == DIRECT else derive_seed(seed, "form", space.form),
                options,
            )
            for space in spaces
        }
        self._best: dict[str, float] = {}

    def learn(self, results: Sequence[tuple[str, float | None]]) -> None:
        """Adds measured schedules with their times (None: failed); those of forms not searched teach nothing."""
        by_form: dict[str, list[tuple[str, float | None]]] = {form: [] for form in self._searches}
        for text, time in results:
            form, trace = form_and_trace(text)
            if form in by_form:
                by_form[form].append((trace, time))
                if time is not None:
                    self._best[form] = min(time, self._best.get(form, time))
        for form, members in by_form.items():
            if members:
                self._searches[form].learn(members)

    def propose(self, count: int, round_number: int, known: Collection[str]) -> list[str]:
        """At most `count` schedules that are not among `known`; fewer when no others were found."""
        tried: dict[str, set[str]] = {form: set() for form in self._searches}
        for text in known:
            form, trace = form_and_trace(text)
            tried.get(form, set()).add(trace)
        found: list[str] = []
        shares = share(count, [space.form for space in self._spaces], self._best)
        for space in self._spaces:
            room = shares[space.form]
            first = [trace for trace in space.first if trace not in tried[space.form]][:room]
            rest = room - len(first)
            if rest:
                first += self._searches[space.form].propose(rest, round_number, tried[space.form] | set(first))
            found += [schedule_text(space.form, trace) for trace in first]
        return found


def share(count: int, forms: Sequence[str], best: Mapping[str, float]) -> dict[str, int]:
    """How many of `count` trials each form gets: in proportion to the square of its speed, but one at least.

    `best` has the shortest time of each form that has one; a form without is taken for as fast as the fastest. What
    rounding leaves goes to the fastest, earlier ones first; with fewer trials than forms the last ones get none.
    """
    fastest = min(best.values(), default=1.0)
    speeds = [(fastest / best.get(form, fastest)) ** 2 for form in forms]
    spare = max(count - len(forms), 0)
    shares = [int(n < count) + int(spare * speed / sum(speeds)) for n, speed in enumerate(speeds)]
    order = sorted(range(len(forms)), key=lambda n: -speeds[n])
    for n in range(max(count - sum(shares), 0)):
        shares[order[n % len(order)]] += 1
    return dict(zip(forms, shares, strict=True))
