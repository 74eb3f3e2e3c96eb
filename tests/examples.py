"""How many examples property tests try: few and the same ones in `make test`, many and new ones in `make test-all`.

`--hypothesis-profile all` takes the many; `--hypothesis-seed` repeats them.
"""

from __future__ import annotations

from hypothesis import settings

_FEW, _MANY = 20, 300
_MORE_OF_COSTLY = 4


def register_profiles() -> None:
    """Register both profiles and load the one of `make test`. The machine may be busy: no deadline per example."""
    settings.register_profile("test", deadline=None, derandomize=True, max_examples=_FEW)
    # Where CI is set, hypothesis would try the same examples each time.
    settings.register_profile("all", deadline=None, derandomize=False, max_examples=_MANY, print_blob=True)
    settings.load_profile("test")


def costly(number: int) -> settings:
    """Settings of a test whose examples take long, such as a compilation each: `number` of them in `make test`."""
    many = settings().max_examples > _FEW
    return settings(max_examples=number * _MORE_OF_COSTLY if many else number)
