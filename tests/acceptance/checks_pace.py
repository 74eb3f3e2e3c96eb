"""How fast the search went: read from what `tune` answered; told, never judged, for it depends on the machine."""

from __future__ import annotations

from tests.acceptance.case import Case


def pace(case: Case) -> str:
    """Verified candidates a minute and where the time went; nothing where the package was built without a search."""
    search = case.summary.get("search")
    if search is None:
        return "no search"
    told = {name: value for name, value in search.items() if isinstance(value, int | float)}
    assert told, f"the summary of the search has no numbers: {search}"
    return ", ".join(f"{name} {value:.4g}" for name, value in sorted(told.items()))
