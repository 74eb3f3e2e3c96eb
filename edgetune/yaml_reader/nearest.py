"""Suggests the known name that is nearest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return ``"did you mean 'x'?"`` for the choice nearest to ``word``, else the list of all choices."""
    from difflib import get_close_matches

    known = sorted(choices)
    close = get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"valid are {', '.join(known)}"
