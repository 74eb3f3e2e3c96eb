"""What an emulator counted when a package was built: instructions of a run and of its layers, and estimated cycles."""

from __future__ import annotations

from dataclasses import asdict, dataclass

_WHOLE = 100  # milliseconds, from which on fractions are noise


@dataclass(frozen=True)
class CountedRun:
    """One run of a package under `emulator`: instructions, of which `layers` has those of each layer.

    `cycles` and `layer_cycles` are estimated by the costs of the target from what was counted by class; None and ()
    where it states none. `clock_mhz` is that of its core.
    """

    emulator: str
    instructions: int
    layers: tuple[int, ...]
    cycles: int | None = None
    layer_cycles: tuple[int, ...] = ()
    clock_mhz: float | None = None

    @property
    def milliseconds(self) -> float | None:
        """The cycles at the clock of the core; None where either is not known."""
        return None if self.cycles is None or self.clock_mhz is None else self.cycles / self.clock_mhz / 1e3

    @property
    def shown_milliseconds(self) -> str:
        """The same as three digits or more; "" for None."""
        found = self.milliseconds
        if found is None:
            return ""
        return f"{found:,.0f}" if found >= _WHOLE else f"{found:.3g}"

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        return asdict(self)
