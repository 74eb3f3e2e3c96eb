"""What is said of a candidate that is not right in every call, the same whichever way it was tried."""

from __future__ import annotations

STARTED_PROCESS = "the kernel started a process"
LEFT_MODE = "leaves the mode of floating point changed (rounding, traps or flush to zero)"
LEFT_THREADS = "leaves threads running"


def changed_input(index: int) -> str:
    """Say that parameter `index`, which is to be read alone, was written to."""
    return f"changes parameter {index}, which is no output"


def in_call(number: int) -> str:
    """Begin a sentence on what showed after a watched call, counted from 1."""
    return f"in call {number}: "


def after_calls(number: int) -> str:
    """Begin a sentence on what showed after all calls, `number` of them."""
    return f"after {number} calls: "


def too_fast(median_ns: float, least_ns: float) -> str:
    """Say that no core does in `median_ns` a call what takes more than `least_ns`."""
    return (
        f"a call took {median_ns:.3g} ns: half of what its multiply-adds, inputs and outputs need at least are "
        f"{least_ns:.3g} ns, so not every call computed"
    )
