"""Messages about a candidate that misbehaves in a call; the same for all ways to run candidates."""

from __future__ import annotations

STARTED_PROCESS = "the kernel started a process"
LEFT_MODE = "leaves the mode of floating point changed (rounding, traps or flush to zero)"
LEFT_THREADS = "leaves threads running"
CHANGED_CODE = "changes code or constants of its image"
TOO_MUCH_STACK = "takes more stack than there is"
BEFORE, AFTER = "before its start", "after its end"


def changed_input(index: int) -> str:
    """Say that the kernel wrote to parameter `index`, which is read-only."""
    return f"changes parameter {index}, which is not an output"


def stray_write(index: int, parameters: int, where: str) -> str:
    """Say that the kernel wrote `BEFORE` or `AFTER` parameter `index`; the scratch comes after all `parameters`."""
    return f"writes to {'scratch' if index == parameters else f'parameter {index}'} {where}"


def wrong_output(index: int, absolute: float, relative: float) -> str:
    """Say how far output `index` is from the reference."""
    size = f"{absolute:.3g} ({relative:.3g} of the largest value)"
    return f"output {index} differs from the reference by {size}"


def in_call(number: int) -> str:
    """Return the beginning of a message about a watched call; calls are counted from 1."""
    return f"in call {number}: "


def after_calls(number: int) -> str:
    """Return the beginning of a message about the state after all `number` calls."""
    return f"after {number} calls: "


def too_fast(median_ns: float, least_ns: float) -> str:
    """Say that `median_ns` per call is impossible, because half of the minimum work takes `least_ns`."""
    return (
        f"a call took {median_ns:.3g} ns, but half of its multiply-adds, inputs and outputs need at least "
        f"{least_ns:.3g} ns, so not every call computed"
    )
