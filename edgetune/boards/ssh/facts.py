"""Facts of a board: a portable shell script queries them, also on small systems; its target is checked against them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from edgetune.boards.reach import BoardFacts
from edgetune.target.target import Target

OLDEST_GLIBC = (2, 17)
_LONGEST = 1000  # characters of a value
_IDENTITY = ("machine_id", "serial", "model", "hostname")
_ELF_WIDTH = {"01": 32, "02": 64}
_ELF_CLASS_AT = 4

# Each program takes a slow board tens of milliseconds, so the shell reads files; programs run only where that fails.
SCRIPT = r"""
exec 2>/dev/null
say() { echo "$1=$2"; }
line() { text=; read -r text < "$2"; [ -n "$text" ] && say "$1" "$text"; }
say machine "$(uname -m)"
line kernel /proc/sys/kernel/osrelease || say kernel "$(uname -r)"
line hostname /proc/sys/kernel/hostname || say hostname "$(uname -n)"
bits=$(getconf LONG_BIT) && say bits "$bits" || say elf "$(head -c 20 /bin/sh | od -An -tx1 | tr -d '\n')"
libc=$(getconf GNU_LIBC_VERSION)
if [ -n "$libc" ]; then say libc "$libc"; else
    say ldd "$(ldd --version 2>&1 | head -n 2 | tr '\n' ' ')"
    say sofile "$(grep -a -o 'stable release version [0-9]*[.][0-9]*' /lib/libc.so.6 /lib64/libc.so.6 /lib/*/libc.so.6 \
        | head -n 1)"
    say musl "$(ls /lib/ld-musl-* | head -n 1)"
fi
say cores "$(nproc || grep -c ^processor /proc/cpuinfo)"
while read -r name text; do if [ "$name" = MemTotal: ]; then say memory "$text"; break; fi; done < /proc/meminfo
line machine_id /etc/machine-id
if [ -d /proc/device-tree ]; then
    say serial "$(tr -d '\000' < /proc/device-tree/serial-number || grep ^Serial /proc/cpuinfo)"
    say model "$(tr -d '\000' < /proc/device-tree/model || cat /sys/class/dmi/id/product_name)"
else
    say serial "$(grep ^Serial /proc/cpuinfo)"
    line model /sys/class/dmi/id/product_name
fi
for file in /proc/device-tree/chosen/bootloader/version /proc/device-tree/chosen/u-boot,version \
    /sys/class/dmi/id/bios_version; do
    if [ -r $file ]; then say firmware "$(tr -d '\000' < $file)"; break; fi
done
say boot "$(cat /proc/sys/kernel/random/boot_id)"
"""


def parse(output: str) -> dict[str, str]:
    """Return the lines "name=value" of `output`."""
    pairs = (line.partition("=") for line in output.splitlines())
    return {
        name: "".join(c for c in value[:_LONGEST].strip() if c.isprintable()) for name, equals, value in pairs if equals
    }


def board_facts(said: Mapping[str, str], folder: str, free_bytes: int) -> BoardFacts:
    """Return the facts from the board's answers; an unknown fact is 0 or empty."""
    elf = said.get("elf", "").split()
    width = _ELF_WIDTH.get(elf[_ELF_CLASS_AT], 0) if len(elf) > _ELF_CLASS_AT else 0
    identity = {name: said[name].rpartition(": ")[2] for name in _IDENTITY if said.get(name)}
    return BoardFacts(
        machine=said.get("machine", ""),
        bits=_number(said.get("bits", "")) or width,
        libc=_libc(said),
        cores=_number(said.get("cores", "")) or 1,
        memory_bytes=_number(said.get("memory", "")) * 1024,
        folder=folder,
        free_bytes=free_bytes,
        kernel=said.get("kernel", ""),
        identity=identity,
        firmware=said.get("firmware", ""),
    )


def misfit(facts: BoardFacts, target: Target) -> str | None:
    """Return why the board cannot be measured as `target`, and the remedy; None when it can."""
    bits = target.instruction_set.bits
    if facts.machine not in target.instruction_set.all_machines:
        kind = facts.machine or "unknown"
        return f"has a processor of kind {kind}, which cannot run {target.isa} programs: name another target for it"
    if facts.bits and facts.bits != bits:
        kind = f"has a {facts.bits}-bit userland on a {facts.machine} kernel, target '{target.name}' needs {bits} bits"
        return f"{kind}: install a {bits}-bit system, or name a {facts.bits}-bit target for it"
    oldest = ".".join(map(str, OLDEST_GLIBC))
    name, _, version = facts.libc.partition(" ")
    if name == "glibc" and _version(version) < OLDEST_GLIBC:
        return f"has {facts.libc}, older than glibc {oldest}: install a newer system"
    if name not in {"glibc", ""}:
        return f"has {facts.libc}, but needs glibc {oldest} or newer: install a system with glibc"
    return None


def _libc(said: Mapping[str, str]) -> str:
    for key in ("libc", "ldd", "sofile"):
        text = said.get(key, "")
        found = re.search(r"(?:glibc|GLIBC|GNU libc|stable release version)[^0-9]*(\d+\.\d+)", text)
        if found:
            return f"glibc {found[1]}"
        if "musl" in text:
            version = re.search(r"Version (\d[\d.]*)", text)
            return f"musl {version[1]}" if version else "musl"
    numbers = re.findall(r"\d+\.\d+", said.get("ldd", ""))
    if numbers and said.get("ldd", "").startswith("ldd ("):  # the distribution's name and then the version follow
        return f"glibc {numbers[-1]}"
    return "musl" if said.get("musl") else ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]{1,15}", text)[:2])


def _number(text: str) -> int:
    found = re.search(r"[0-9]{1,15}", text)
    return int(found[0]) if found else 0
