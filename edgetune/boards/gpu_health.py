"""Health of a GPU while candidates are timed, as nvidia-smi reports it: clocks, throttling, memory errors, others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Keys of `nvidia-smi --help-query-gpu`. Older drivers call the fourth clocks_throttle_reasons.active, which all take.
_KEYS = ("clocks.sm", "clocks.max.sm", "temperature.gpu", "clocks_throttle_reasons.active")
_MEMORY = "ecc.errors.uncorrected.volatile.total"
SAMPLES, OTHERS, ERRORS = "gpu-samples", "gpu-others", "gpu-errors"
"""Files that `WATCH` writes."""

_ASK = "nvidia-smi -i 0 --format=csv,noheader,nounits"
ASK_OTHERS = f"{_ASK} --query-compute-apps=pid"
ASK_ERRORS = f"{_ASK} --query-gpu={_MEMORY}"
ASK_SAMPLE = f"{_ASK} --query-gpu={','.join(_KEYS)}"
"""Commands that print other processes of the GPU, its memory errors, and one sample."""

WATCH = f"""\
if command -v nvidia-smi >/dev/null 2>&1; then
{ASK_OTHERS} >{OTHERS} 2>/dev/null
{ASK_ERRORS} >{ERRORS} 2>/dev/null
{ASK_SAMPLE} -lms 500 >>{SAMPLES} 2>/dev/null &
watch=$!
trap 'kill $watch 2>/dev/null' EXIT
fi"""
"""Shell lines that write, in the current folder, what other processes the GPU has, and samples until the shell ends."""

# nvml.h, "Clocks Event Reasons": bits of what takes clocks away. Idle and the user's own settings are not among them.
_REASONS = {
    0x04: "its power limit",
    0x08: "a hardware slowdown",
    0x20: "heat",
    0x40: "heat, in hardware",
    0x80: "an external power brake",
}
_MOST = 1 << 20  # bytes of a file that are read
_STEADY = 0.05  # of the highest clock under load


@dataclass(frozen=True)
class GpuSample:
    """One line of nvidia-smi: clock and highest clock in MHz, degrees, and bits of `_REASONS`; None: not told."""

    clock: float | None
    highest: float | None
    degrees: float | None
    reasons: int

    @classmethod
    def of(cls, line: str) -> GpuSample | None:
        """The sample of a line; None where it is none."""
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != len(_KEYS):
            return None
        clock, highest, degrees = (_number(part) for part in parts[:3])
        bits = int(parts[3], 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", parts[3]) else 0
        return cls(clock, highest, degrees, bits)

    @property
    def words(self) -> str:
        """The clock and the temperature, each where nvidia-smi prints a number."""
        clock = "clock not told" if self.clock is None else f"{self.clock:g} MHz"
        most = "" if self.highest is None else f" of {self.highest:g}"
        return f"{clock}{most}" + ("" if self.degrees is None else f", {self.degrees:g} degrees")


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text) else None


def health_faults(samples: str | None, others: str | None, errors: str | None) -> Iterator[str]:
    """Yield what makes times doubtful, as ends of sentences about a GPU, from the files that `WATCH` writes.

    None is a file that is not there.
    """
    if samples is None:
        yield "is not watched, because nvidia-smi is not there: install it there to see its clocks"
        return
    found = [sample for line in samples[:_MOST].splitlines() if (sample := GpuSample.of(line)) is not None]
    if not found:
        yield "is not watched, because nvidia-smi tells nothing: update its driver to see its clocks"
    yield from _throttled(found)
    clocks = [sample.clock for sample in found if sample.clock]
    under_load = [clock for clock in clocks if clock > max(clocks) / 2]
    if under_load and min(under_load) < max(under_load) * (1 - _STEADY):
        yield (f"changed its clock from {min(under_load):g} to {max(under_load):g} MHz: `nvidia-smi -lgc MHZ` fixes it")
    count = len([line for line in (others or "")[:_MOST].splitlines() if line.strip().isdigit()])
    if count:
        yield f"is shared with {count} other process{'es' if count > 1 else ''}: end them, and time again"
    wrong = _number((errors or "").strip()[:20])
    if wrong:
        yield f"had {wrong:g} memory errors that ECC could not correct: restart it before results are believed"


def _throttled(found: Sequence[GpuSample]) -> Iterator[str]:
    for bit, reason in _REASONS.items():
        if count := sum(bool(sample.reasons & bit) for sample in found):
            degrees = max((sample.degrees for sample in found if sample.degrees), default=0)
            yield f"was slowed by {reason} in {count} of {len(found)} samples (up to {degrees:g} degrees)"
