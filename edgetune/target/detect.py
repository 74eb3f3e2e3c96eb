"""Host detection: describes this machine (ISA, features, cores, caches) as a Target that needs no ``-march=native``."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
from functools import lru_cache
from pathlib import Path

from edgetune.errors import EdgetuneError
from edgetune.target.target import Compiler, Isa, Target
from edgetune.target.tool_process import run_tool

# Maps a feature of __builtin_cpu_supports to its name in /proc/cpuinfo. The compiler flag is -m<feature>.
X86_FEATURES = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "popcnt": "popcnt",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "avx512f": "avx512f",
    "avx512cd": "avx512cd",
    "avx512bw": "avx512bw",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avxvnni": "avx_vnni",
}
_V2 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"}
_V3 = _V2 | {"avx", "avx2", "fma", "f16c", "bmi", "bmi2"}
_V4 = _V3 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}
_LEVELS = (("x86-64-v4", _V4, 512, 32), ("x86-64-v3", _V3, 256, 16), ("x86-64-v2", _V2, 128, 16))
_TUNE = "-mtune="
_COMMON = ("-O3", "-ffp-contract=fast")
# As in the ARM target files, which explain why. GCC only: clang warns about flags of GCC's scheduler.
_GCC_AARCH64_KERNELS = ("-fno-schedule-insns",)
_GCC_ARMV7_KERNELS = ("-fno-schedule-insns", "-fno-move-loop-invariants")
_ARMV7_KERNELS = ("-funsafe-math-optimizations", "-fno-associative-math", "-fno-reciprocal-math", "-fsigned-zeros")


@lru_cache(maxsize=4)
def detect_host(cc: str = "gcc") -> Target:
    """Return this machine as a Target named ``host``; raise EdgetuneError on an ISA that edgetune does not know."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    machine = platform.machine()
    l1, l2 = cache_bytes(Path("/sys/devices/system/cpu/cpu0/cache"))
    cores = len(os.sched_getaffinity(0))
    if machine in {"x86_64", "AMD64"}:
        return describe_x86(cpuinfo, cores=cores, l1=l1, l2=l2, cc=cc, tune=_tuned_for(cc))
    if machine in {"aarch64", "arm64"}:
        return describe_aarch64(cpuinfo, cores=cores, l1=l1, l2=l2, cc=cc)
    if machine in {"armv7l", "armv8l"}:
        return describe_armv7(cpuinfo, cores=cores, l1=l1, l2=l2, cc=cc)
    msg = f"this machine is '{machine}', which edgetune cannot tune for: it knows x86_64, aarch64 and armv7"
    raise EdgetuneError(msg)


def describe_x86(cpuinfo: str, *, cores: int, l1: int, l2: int, cc: str, tune: str | None) -> Target:
    """Describe an x86-64 machine from the text of ``/proc/cpuinfo``; features without their base are left out."""
    listed = set(_field(cpuinfo, "flags").split())
    present = {feature for feature, name in X86_FEATURES.items() if name in listed}
    level, base, bits, registers = "x86-64", set[str](), 128, 16
    for name, needed, width, count in _LEVELS:
        if needed <= present:
            level, base, bits, registers = name, needed, width, count
            break
    # An extension counts only with its vector level: without the full v4 set, avx512vnni code could trap.
    extras = {"x86-64-v4": {"avx512vnni", "avx512bf16", "avxvnni"}, "x86-64-v3": {"avxvnni"}}.get(level, set())
    used = tuple(feature for feature in X86_FEATURES if feature in base | (extras & present))
    flags = [*_COMMON, *(f"-m{feature}" for feature in used)]
    if bits == 512:  # noqa: PLR2004 (GCC prefers 256 bits by itself)
        flags.append("-mprefer-vector-width=512")
    if tune:
        flags.append(f"-mtune={tune}")
    features = tuple(f"+{feature}" for feature in used if feature in extras)
    return _host(
        isa="x86_64",
        triple="x86_64-linux-gnu",
        cpu=level,
        features=features,
        bits=bits,
        registers=registers,
        cores=cores,
        l1=l1,
        l2=l2,
        cc=cc,
        cflags=tuple(flags),
        checks=used,
        has_float16=True,
    )


def describe_aarch64(cpuinfo: str, *, cores: int, l1: int, l2: int, cc: str) -> Target:
    """Describe a 64-bit ARM machine; 8.2 extensions are used only where all cores list them."""
    listed = set(_field(cpuinfo, "Features").split())
    modern = {"asimddp", "asimdhp", "fphp", "atomics", "crc32"} <= listed
    march = "armv8.2-a+fp16+dotprod" if modern else "armv8-a"
    checks = ("asimd", "asimddp", "asimdhp", "fphp", "atomics") if modern else ("asimd",)
    return _host(
        isa="aarch64",
        triple="aarch64-linux-gnu",
        cpu="generic",
        bits=128,
        registers=32,
        features=("+v8.2a", "+fullfp16", "+dotprod") if modern else (),
        cores=cores,
        l1=l1,
        l2=l2,
        cc=cc,
        cflags=(*_COMMON, f"-march={march}"),
        kernel_cflags=() if "clang" in cc else _GCC_AARCH64_KERNELS,
        checks=checks,
        has_float16=True,
        part=_parts(cpuinfo),
    )


def describe_armv7(cpuinfo: str, *, cores: int, l1: int, l2: int, cc: str) -> Target:
    """Describe a 32-bit ARM machine (also a 32-bit userland on a 64-bit core); needs NEON with VFPv4."""
    listed = set(_field(cpuinfo, "Features").split())
    if not {"neon", "vfpv4"} <= listed:
        msg = "this ARM machine lacks NEON with VFPv4, which edgetune needs: use a board with a Cortex-A7 or later"
        raise EdgetuneError(msg)
    return _host(
        isa="armv7",
        triple="armv7l-linux-gnueabihf",
        cpu="cortex-a7",
        features=("+neon", "+vfp4"),
        bits=128,
        registers=16,
        cores=cores,
        l1=l1,
        l2=l2,
        cc=cc,
        checks=("neon", "vfpv4"),
        has_float16=False,
        part=_parts(cpuinfo),
        cflags=(*_COMMON, "-march=armv7-a", "-mfpu=neon-vfpv4", "-mfloat-abi=hard"),
        kernel_cflags=_ARMV7_KERNELS if "clang" in cc else (*_ARMV7_KERNELS, *_GCC_ARMV7_KERNELS),
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


def _host(
    *,
    isa: Isa,
    triple: str,
    cpu: str,
    features: tuple[str, ...],
    bits: int,
    registers: int,
    cores: int,
    l1: int,
    l2: int,
    cc: str,
    cflags: tuple[str, ...],
    checks: tuple[str, ...],
    has_float16: bool,
    kernel_cflags: tuple[str, ...] = (),
    part: str = "",
) -> Target:
    cxx = {"gcc": "g++", "clang": "clang++"}.get(cc)
    return Target.model_validate(
        {
            "name": "host",
            "description": "this machine",
            "isa": isa,
            "triple": triple,
            "cpu": cpu,
            "llvm_features": features,
            "vector_bits": bits,
            "vector_registers": registers,
            "cores": cores,
            "l1_bytes": l1,
            "l2_bytes": l2,
            "has_float16": has_float16,
            "reach": "local",
            "cpu_part": part,
            "cpu_checks": checks,
            "compiler": Compiler(
                cc=cc, cxx=cxx, cflags=cflags, kernel_cflags=kernel_cflags, package="gcc g++ libc6-dev"
            ),
        },
    )


def _parts(cpuinfo: str) -> str:
    """Return implementer and part of each listed kind of ARM core, such as ``0x41:0xd03+0x41:0xd08`` for big.LITTLE."""
    implementers = re.findall(r"^CPU implementer\s*:\s*(\S+)", cpuinfo, re.MULTILINE)
    parts = re.findall(r"^CPU part\s*:\s*(\S+)", cpuinfo, re.MULTILINE)
    return "+".join(sorted({f"{maker}:{part}" for maker, part in zip(implementers, parts, strict=False)}))


def _field(cpuinfo: str, name: str) -> str:
    match = re.search(rf"^{name}\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return match[1] if match else ""


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
