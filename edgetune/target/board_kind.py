"""What all kinds of boards have, whether kernels run on a CPU or on a GPU."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from edgetune.target.preferences import Preferences
from edgetune.yaml_reader.checked import Checked

_HIGHEST = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
_CPUINFO = Path("/proc/cpuinfo")


def this_clock_mhz(highest: Path = _HIGHEST, cpuinfo: Path = _CPUINFO) -> float | None:
    """The highest clock in MHz that the kernel states, else the present one; None where it states none.

    It changes with load, so no record depends on it.
    """
    try:
        return int(highest.read_text(encoding="ascii")) / 1000
    except (OSError, ValueError):
        pass  # virtual machines have no such file
    try:
        found = re.search(
            r"^cpu MHz\s*:\s*([0-9.]+)$", cpuinfo.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
        )
        return float(found[1]) if found else None
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Peak:
    """What a board can do at most, for estimates: float32 multiply-adds of `unit` per cycle, its clock and memory.

    `integers_per_cycle` are multiply-adds of bytes, 0 where that is not known.
    """

    multiply_adds_per_cycle: int
    clock_mhz: float
    memory_gb_per_s: float
    unit: str
    integers_per_cycle: int = 0

    def multiply_adds(self, *, integers: bool) -> tuple[int, str]:
        """The most multiply-adds per cycle of a model with or without weights of bytes, and their type."""
        if integers and self.integers_per_cycle >= self.multiply_adds_per_cycle:
            return self.integers_per_cycle, "int8"
        return self.multiply_adds_per_cycle, "float32"


class BoardKind(Checked):
    """A kind of board; `Target` is one with a CPU, `GpuTarget` one with a GPU."""

    name: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")] = Field(description="Name for --board.")
    description: StrictStr = Field(description="One line for `edgetune boards list`.")
    backend: StrictStr = Field(
        default="c-linux",
        description="How kernels are written, built and run: c-linux, c-bare-metal (no operating system), or the "
        "backend of an installed distribution.",
    )
    reach: Annotated[StrictStr, Field(min_length=1)] = Field(
        examples=["local", "ssh", "emulator", "image", "machine", "probe", "none"],
        description="local: measured on this machine; ssh: on boards with an address; emulator: instructions counted "
        "under a user-mode emulator; image: the same without operating system, under a system emulator; machine: in an "
        "emulated machine; probe: cycles of a board without operating system, behind a debug probe; none: build only, "
        "unless a board has an address; or an installed transport.",
    )
    emulated: StrictBool = Field(
        default=False,
        description="Times come from an emulator, and say nothing about the speed of a real core.",
    )
    clock: Literal["time", "instructions"] = Field(
        default="time",
        description="What is measured: time, or executed instructions, of which one counts as a nanosecond.",
    )
    caches: Literal["warm", "cold"] = Field(
        default="warm",
        description="State of the caches when kernels are timed: warm, or cold (flushed before every call), for "
        "models that run rarely. Only for boards with the agent, for GPUs and in bundles; warm and cold times share no "
        "records.",
    )
    clock_mhz: Annotated[StrictFloat | StrictInt, Field(gt=0)] | None = Field(
        default=None,
        description="Highest clock of a core, or of the GPU; for estimates of `edgetune inspect`, and for the "
        "benchmark of packages without operating system, which counts this clock.",
    )
    defaults: Preferences = Field(
        default=Preferences(), description="Settings for this board that other sources override."
    )

    @property
    def caveat(self) -> str:
        """The note that must accompany every measured number, such as that of an emulator; else empty."""
        return "times of an emulated machine, which say nothing about a real board" if self.emulated else ""

    def peak(self) -> Peak | None:
        """What one core, or the whole GPU, can do at most; None where its clock is not known."""
        return None

    @property
    @abstractmethod
    def shown(self) -> dict[str, object]:
        """The columns of `edgetune boards list` that say what computes: isa, cpu, vectors and cores."""

    @property
    def stand_in(self) -> str:
        """What runs its binaries on this machine in its place, such as an emulator; "" where nothing does."""
        return ""

    @property
    @abstractmethod
    def c_compiler(self) -> tuple[str, str | None]:
        """Its C compiler on this machine, and the Debian packages that contain it (None: none are known)."""

    @property
    def emulators(self) -> tuple[tuple[str, str | None], ...]:
        """The user-mode emulator of its binaries with its Debian packages; none where nothing emulates them."""
        return ()

    @property
    def memory_sizes(self) -> dict[str, int]:
        """Bytes of its `ram` and `flash`, the most that packages may take where no setting says less; {} for any."""
        return {}

    @property
    def memory_is_scarce(self) -> bool:
        """Whether it says how much RAM it has: then nothing that is a little faster takes more of it."""
        return "ram" in self.memory_sizes

    @property
    def has_fpu(self) -> bool:
        """Whether its cores compute floats by instructions, not by functions of the compiler's library."""
        return True

    @property
    def addressable(self) -> bool:
        """Whether boards of this target are reached by an address in boards.yaml."""
        return self.reach in {"ssh", "none"}
