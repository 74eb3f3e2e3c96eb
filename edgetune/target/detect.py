"""Host detection: describes this machine (ISA, features, cores, caches) as a Target that needs no ``-march=native``."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from edgetune.errors import EdgetuneError
from edgetune.target.isa import INSTRUCTION_SETS, InstructionSet
from edgetune.target.target import THIS_MACHINE, Compiler, Target
from edgetune.target.tool_process import run_tool

_TUNE = "-mtune="
_COMMON = ("-O3", "-ffp-contract=fast")


@lru_cache(maxsize=4)
def detect_host(cc: str = "gcc") -> Target:
    """Return this machine as a Target named ``host``; raise EdgetuneError on an ISA that edgetune does not know."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    machine = platform.machine()
    l1, l2 = cache_bytes(Path("/sys/devices/system/cpu/cpu0/cache"))
    cores = len(os.sched_getaffinity(0))
    for isa in INSTRUCTION_SETS.values():
        if isa.describe_host is not None and machine.lower() in isa.machines:
            return describe_host(isa, cpuinfo, cores=cores, l1=l1, l2=l2, cc=cc)
    known = [isa.name for isa in INSTRUCTION_SETS.values() if isa.describe_host is not None]
    msg = (
        f"this machine is '{machine}', which edgetune cannot tune for: it knows {', '.join(known[:-1])} and {known[-1]}"
    )
    raise EdgetuneError(msg)


def cpu_name() -> str:
    """Return the name of this machine's CPU for people, as the kernel tells it, or its instruction set."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"^model name\s*:\s*(\S.*)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def describe_host(
    isa: InstructionSet,
    cpuinfo: str,
    *,
    cores: int,
    l1: int,
    l2: int,
    cc: str,
    native: Callable[[str], str | None] | None = None,
) -> Target:
    """Describe a machine of `isa` from the text of ``/proc/cpuinfo``; `l1` and `l2` are bytes.

    `native` returns the CPU that the compiler `cc` tunes for; by default, `cc` is run. Raises EdgetuneError for a
    CPU that is too old, and for an instruction set that cannot be tuned for on the machine itself.
    """
    if isa.describe_host is None:
        raise EdgetuneError(f"a machine of {isa.name} cannot describe itself: name its target with `--board`")
    cpu = isa.describe_host(cpuinfo, cc, native or _tuned_for)
    return Target.model_validate(
        {
            "name": THIS_MACHINE,
            "description": "this machine",
            "isa": isa.name,
            "triple": isa.host_triple,
            "cpu": cpu.cpu,
            "llvm_features": cpu.llvm_features,
            "vector_bits": cpu.vector_bits,
            "vector_registers": cpu.vector_registers,
            "cores": cores,
            "l1_bytes": l1,
            "l2_bytes": l2,
            "has_float16": cpu.has_float16,
            "dot": cpu.dot,
            "reach": "local",
            "cpu_part": cpu.cpu_part,
            "cpu_checks": cpu.cpu_checks,
            "compiler": Compiler(
                cc=cc,
                cxx={"gcc": "g++", "clang": "clang++"}.get(cc),
                cflags=(*_COMMON, *cpu.machine_flags),
                kernel_cflags=cpu.kernel_cflags,
                package="gcc g++ libc6-dev",
            ),
        },
    )


def cache_bytes(folder: Path) -> tuple[int, int]:
    """Return (L1 data, L2) in bytes from a ``cpuN/cache`` folder of sysfs; 32 KiB and 512 KiB where it has no size."""
    sizes = {1: 32 * 1024, 2: 512 * 1024}
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size = (
                (index / name).read_text(encoding="ascii").strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue  # a virtual machine may lack single files; the fallback above stays
        match = re.fullmatch(r"(\d+)([KM]?)", size)
        if match and level in {"1", "2"} and kind in {"Data", "Unified"}:
            sizes[int(level)] = int(match[1]) * {"": 1, "K": 1024, "M": 1024**2}[match[2]]
    return sizes[1], sizes[2]


def _tuned_for(cc: str) -> str | None:
    """Ask the compiler which ``-mtune`` "native" means; None where it has no answer or is not installed."""
    path = shutil.which(cc)
    if path is None:
        return None
    return native_tuning(run_tool([path, "-march=native", "-###", "-E", "-x", "c", os.devnull], timeout_s=30).stderr)


def native_tuning(commands: str) -> str | None:
    """Return the CPU after ``-mtune=`` in the output of GCC's ``-###``, the commands that its driver would run.

    This output has complete words, whereas the table of ``--help=target`` truncates names at the terminal width.
    Returns None where there is no such word: clang names a CPU in another way when it gets only instruction sets.
    """
    for line in commands.splitlines():
        try:
            words = shlex.split(line)
        except ValueError:  # a message with an unbalanced quotation mark
            continue
        if line.startswith(" ") and words and Path(words[0]).name == "cc1":
            return next((word.removeprefix(_TUNE) for word in words if word.startswith(_TUNE)), None)
    return None
