"""Slow kernels: those far below what the core allows, for the report and for warnings.

A measured kernel is set against its roofline. A default schedule has no time, so its predicted cycles are set against
the ideal ones, and one of plain loops is always slow. Where nothing can be timed, nothing is predicted either: the
cost model knows only cores that a search has been tried on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.package.calls import KernelView

TOLD = 0.5
"""The report names kernels below this share ..."""
WARNED = 0.2
"""... and a warning those below this one."""

_LEAST_US = 1.0  # a shorter kernel takes little more than its call
_MOST = 5  # warnings


@dataclass(frozen=True)
class SlowKernel:
    """A kernel at `share` of what the core allows; `lost` orders kernels, what a run loses first."""

    name: str
    share: float
    why: str
    lost: float

    @property
    def percent(self) -> str:
        """The share for people."""
        return _percent(self.share)


def slow_kernels(kernels: Sequence[KernelView], tuned_by: str) -> tuple[SlowKernel, ...]:
    """Return the kernels below the share `TOLD`: those of which a run loses most time first, unmeasured ones last.

    `tuned_by` is the command that searches for faster schedules, "" where nothing can be timed.
    """
    found = [slow for kernel in kernels if (slow := _slow(kernel, tuned_by)) is not None]
    return tuple(sorted(found, key=lambda one: (-one.lost, one.share, one.name)))


def slow_warnings(kernels: Sequence[KernelView], tuned_by: str) -> tuple[str, ...]:
    """Return a sentence for each kernel below the share `WARNED`, at most five and then the number of the others."""
    far = [one for one in slow_kernels(kernels, tuned_by) if one.share < WARNED]
    told = [f"{one.name} is slow: {one.why}" for one in far[:_MOST]]
    if len(far) > _MOST:
        more = len(far) - _MOST
        told.append(f"{more} more kernel{'s are' if more > 1 else ' is'} as slow: REPORT.md names all")
    return tuple(told)


def _percent(share: float) -> str:
    return "less than 1 %" if 0.0 < share < 0.01 else f"{100 * share:.0f} %"


def _slow(kernel: KernelView, tuned_by: str) -> SlowKernel | None:
    origin = kernel.provenance
    share, time, least = origin.roofline_share, origin.median_us, origin.roofline_us
    if share is not None and time is not None and least is not None:
        if share >= TOLD or time < _LEAST_US:
            return None
        why = f"it takes {time:.2f} us, and its roofline is {least:.2f} us ({origin.roofline_limit})"
        return SlowKernel(kernel.name, share, why, kernel.calls * (time - least))
    share = origin.predicted_share
    if share is None or share >= TOLD or not tuned_by or kernel.is_scalar:
        return None
    if share == 0:
        return SlowKernel(kernel.name, share, "no schedule rule fits it, so it has plain loops without vectors", 0.0)
    why = f"its default schedule should reach {_percent(share)} of what the core allows; `{tuned_by}` may help"
    return SlowKernel(kernel.name, share, why, 0.0)
