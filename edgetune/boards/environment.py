"""Reads measuring conditions from Linux: governor, clock, temperature, throttling, load."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

Reading = str | int | float
_FIRMWARE = "sys/devices/platform/soc/soc:firmware/get_throttled"
_NOW, _EVER = 0x6, 0x60000  # flag bits: clock capped or core throttled, now and since boot
_MOST = 2**62  # a larger value is not a valid reading
_MOST_LETTERS = 64


def read_environment(core: int, root: Path = Path("/")) -> dict[str, Reading]:
    """Return the current readings of `core`; a key is absent where the system has no value, or an invalid one.

    Keys: `governor`, `clock_khz` (now), `clock_min_khz`, `clock_max_khz`, `temperature_c` (hottest sensor),
    `throttle_count` (of this core since boot), `throttle_flags` (of a Raspberry Pi's firmware), `load_1min` (runnable
    processes). `root` is the folder that contains /proc and /sys.
    """
    frequency = root / f"sys/devices/system/cpu/cpu{core}/cpufreq"
    found: dict[str, Reading] = {}
    governor = _text(frequency / "scaling_governor")
    if governor and governor.isprintable() and len(governor) <= _MOST_LETTERS:
        found["governor"] = governor
    for key, path in (
        ("clock_khz", frequency / "scaling_cur_freq"),
        ("clock_min_khz", frequency / "scaling_min_freq"),
        ("clock_max_khz", frequency / "scaling_max_freq"),
        ("throttle_count", root / f"sys/devices/system/cpu/cpu{core}/thermal_throttle/core_throttle_count"),
    ):
        with contextlib.suppress(ValueError):
            found[key] = _whole(_text(path))
    with contextlib.suppress(ValueError):
        found["throttle_flags"] = _whole(_text(root / _FIRMWARE), 16)
    if "clock_khz" not in found:
        with contextlib.suppress(ValueError):
            found["clock_khz"] = _cpuinfo_khz(root / "proc/cpuinfo", core)
    zones = [*root.glob("sys/class/thermal/thermal_zone*/temp"), *root.glob("sys/class/hwmon/hwmon*/temp*_input")]
    degrees = []
    for zone in sorted(zones):
        with contextlib.suppress(ValueError):
            degrees.append(_whole(_text(zone)) / 1000)
    if degrees:
        found["temperature_c"] = max(degrees)
    with contextlib.suppress(ValueError, IndexError):
        found["load_1min"] = _real(_text(root / "proc/loadavg").split()[0])
    return found


def throttled(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> bool:
    """Whether the core was throttled between two readings, as far as they show it."""
    counts = [reading.get("throttle_count") for reading in (before, after)]
    if None not in counts and counts[0] != counts[1]:
        return True
    flags = [
        int(value) if isinstance(value := reading.get("throttle_flags"), int) else 0 for reading in (before, after)
    ]
    return bool((flags[0] | flags[1]) & _NOW) or bool(flags[1] & ~flags[0] & _EVER)


def _cpuinfo_khz(path: Path, core: int) -> int:
    for block in _text(path).split("\n\n"):
        fields = dict(line.split(":", 1) for line in block.splitlines() if ":" in line)
        named = {key.strip(): value.strip() for key, value in fields.items()}
        if named.get("processor") == str(core):
            return int(_real(named.get("cpu MHz", "")) * 1000)
    raise ValueError("not reported")


def _whole(text: str, base: int = 10) -> int:
    value = int(text, base)
    if abs(value) > _MOST:
        raise ValueError("no reading is that large")
    return value


def _real(text: str) -> float:
    value = float(text)
    if not abs(value) <= _MOST:  # also true for NaN
        raise ValueError("no reading is that large")
    return value


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
