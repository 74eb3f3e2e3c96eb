"""How fast the search went, as `tune` answered; judged only by a limit that is given, for it is the machine's too."""

from __future__ import annotations

from tests.acceptance.case import Case


def pace(case: Case, least: float | None = None) -> str:
    """Verified candidates a minute, `least` at the least, and where the time went; a search is not required."""
    search = case.summary.get("search")
    if search is None:
        assert least is None, "the package was built without a search: give --tune"
        return "no search"
    told = {name: value for name, value in search.items() if isinstance(value, int | float)}
    assert told, f"the summary of the search has no numbers: {search}"
    reached = search["pace_per_minute"]
    assert least is None or reached >= least, f"{reached:g} candidates a minute, at least {least:g} are wanted"
    return ", ".join(f"{name} {value:.4g}" for name, value in sorted(told.items()))
