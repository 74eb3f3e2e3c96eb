"""Measuring conditions of a board: reads its governor, clock, load etc. with one shell command and judges them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence

from edgetune.boards.reach import Reach
from edgetune.errors import BoardLost
from edgetune.findings import Finding

_PATIENCE_S = 15.0
_SKEW_S = 60.0
_WARM_C = 70.0
_HOT_C = 80.0

# Prints "key value..." lines, none for unknown values. Needs only a POSIX shell and /proc, so BusyBox is enough.
_PROBE = """\
echo "now $(date +%s)"
for core in {cores}; do
  for key in scaling_governor scaling_min_freq scaling_max_freq; do
    file=/sys/devices/system/cpu/cpu$core/cpufreq/$key
    [ -r $file ] && echo "$key $(cat $file)"
  done
done
for file in /sys/class/thermal/thermal_zone*/temp; do
  [ -r $file ] && echo "temp $(cat $file 2>/dev/null)"
done
file=/sys/devices/platform/soc/soc:firmware/get_throttled
if [ -r $file ]; then echo "throttled $(cat $file)"
elif command -v vcgencmd >/dev/null 2>&1; then echo "throttled $(vcgencmd get_throttled 2>/dev/null)"
fi
grep -q '@edgetune' /proc/net/unix 2>/dev/null && echo "lock"
[ -r /proc/loadavg ] && echo "load $(cat /proc/loadavg)"
true
"""
_NOW = {0: "the voltage is too low", 1: "the clock is capped", 2: "it is throttled", 3: "it is at its soft heat limit"}
_SINCE_BOOT = 16  # the flags since boot are this many bits above the current flags


def probe(reach: Reach, cores: Sequence[int]) -> tuple[Mapping[str, list[str]], float]:
    """Query the board; return its answers by key, and how far its clock is ahead of this machine's, in seconds.

    Raises BoardLost if it does not answer in time.
    """
    asked = time.time()
    done = reach.run(_PROBE.format(cores=" ".join(str(core) for core in cores)), _PATIENCE_S)
    told: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        told.setdefault(key, []).append(value.strip())
    if re.fullmatch(r"[0-9]{1,12}", (told.get("now") or [""])[0]) is None:
        raise BoardLost(f"board '{reach.name}': its shell does not answer (status {done.status}): log in and check it")
    answered = time.time()
    now = int(told["now"][0])
    # The board read its clock between both moments, in whole seconds; only a time outside them is skew.
    return told, min(0.0, now + 1 - asked) + max(0.0, now - answered)


def findings(name: str, told: Mapping[str, list[str]], skew_s: float) -> Iterator[Finding]:
    """Judge the answers of the board ``name``; a fault lowers the trust in times, none prevents measuring."""
    yield _lock(told)
    yield _governor(name, told)
    yield _skew(name, skew_s)
    yield _throttled(name, told)
    yield _temperature(told)
    yield _load(name, told)


def _lock(told: Mapping[str, list[str]]) -> Finding:
    if "lock" in told:
        return Finding(
            "lock", False, "another run measures on it now", "wait, or ask its owner, whom `edgetune tune` names"
        )
    return Finding("lock", True, "no other run measures on it")


def _governor(name: str, told: Mapping[str, list[str]]) -> Finding:
    governors = sorted(set(told.get("scaling_governor", [])))
    if not governors:
        return Finding("governor", True, "it does not report it (usual in virtual machines)")
    shown = ", ".join(governors)
    if governors == ["performance"]:
        return Finding("governor", True, shown)
    if told.get("scaling_min_freq", ["?"]) == told.get("scaling_max_freq"):
        return Finding("governor", True, f"{shown}, at a fixed clock")
    command = "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
    return Finding("governor", False, f"{shown}: its clock will vary", f"edgetune boards shell {name} -- '{command}'")


def _skew(name: str, skew_s: float) -> Finding:
    if abs(skew_s) <= _SKEW_S:
        return Finding("clock", True, "agrees with this machine's")
    way = "ahead of" if skew_s > 0 else "behind"
    detail = f"{abs(skew_s):.0f} s {way} this machine's"
    return Finding("clock", False, detail, f"edgetune boards shell {name} -- sudo timedatectl set-ntp true")


def _throttled(name: str, told: Mapping[str, list[str]]) -> Finding:
    words = " ".join(told.get("throttled", []))
    match = re.search(r"(?:0x)?([0-9a-fA-F]{1,8})$", words.rpartition("=")[2])
    if match is None:
        return Finding("throttling", True, "it does not report it")
    flags = int(match[1], 16)
    now = [text for bit, text in _NOW.items() if flags >> bit & 1]
    before = [text for bit, text in _NOW.items() if flags >> (bit + _SINCE_BOOT) & 1]
    mend = "use a stronger power supply and a shorter cable" if flags & 0x10001 else "give it a heat sink or a fan"
    if now:
        return Finding("throttling", False, "; ".join(now), mend)
    if before:
        reboot = f"; `edgetune boards shell {name} -- sudo reboot` clears this record"
        return Finding("throttling", False, f"since boot: {'; '.join(before)}", mend + reboot)
    return Finding("throttling", True, "none")


def _temperature(told: Mapping[str, list[str]]) -> Finding:
    degrees = [int(text) / 1000 for text in told.get("temp", []) if re.fullmatch(r"-?[0-9]{1,7}", text)]
    if not degrees:
        return Finding("temperature", True, "it does not report it")
    hottest = max(degrees)
    mend = {True: "let it cool; it will throttle", False: "give it a heat sink or a fan"}[hottest >= _HOT_C]
    return Finding("temperature", hottest < _WARM_C, f"{hottest:.0f} °C", "" if hottest < _WARM_C else mend)


def _load(name: str, told: Mapping[str, list[str]]) -> Finding:
    words = (told.get("load") or [""])[0].split()
    try:
        load = float(words[0])
    except (IndexError, ValueError):
        return Finding("load", True, "it does not report it")
    calm = load < 0.5  # noqa: PLR2004 (half a core busy, averaged over the last minute)
    fix = "" if calm else f"stop other programs; `edgetune boards shell {name} -- top` shows them"
    return Finding("load", calm, f"{load:.2f} runnable programs in the last minute", fix)
