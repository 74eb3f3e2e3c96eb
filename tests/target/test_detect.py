"""Detection of the host from recorded answers: /proc/cpuinfo of a dozen CPUs, and what GCC and clang say on them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgetune.target.detect import describe_host, detect_host, native_tuning
from edgetune.target.isa.aarch64 import AARCH64
from edgetune.target.isa.armv7 import ARMV7
from edgetune.target.isa.x86_64 import X86_64

ANSWERS = Path(__file__).parents[1] / "compiler_answers"
HASWELL = "fpu sse sse2 pni ssse3 sse4_1 sse4_2 popcnt avx avx2 fma f16c bmi1 bmi2 abm"
SKYLAKE_X = f"{HASWELL} avx512f avx512cd avx512bw avx512dq avx512vl"
# Flags of /proc/cpuinfo, vector bits, and what is used beyond the level that they make.
X86 = {
    "haswell": (HASWELL, 256, ()),
    "skylake": (f"{HASWELL} adx clflushopt xsavec", 256, ()),
    "skylake-avx512": (SKYLAKE_X, 512, ()),
    "cascadelake": (f"{SKYLAKE_X} avx512_vnni", 512, ("+avx512vnni",)),
    "cooperlake": (f"{SKYLAKE_X} avx512_vnni avx512_bf16", 512, ("+avx512vnni", "+avx512bf16")),
    "icelake-client": (f"{SKYLAKE_X} avx512ifma avx512vbmi avx512_vnni", 512, ("+avx512vnni",)),
    "icelake-server": (f"{SKYLAKE_X} avx512ifma avx512vbmi avx512_vnni", 512, ("+avx512vnni",)),
    "alderlake": (f"{HASWELL} avx_vnni gfni", 256, ("+avxvnni",)),
    "sapphirerapids": (
        f"{SKYLAKE_X} avx512_vnni avx512_bf16 avx_vnni avx512_fp16 amx_tile",
        512,
        ("+avx512vnni", "+avx512bf16", "+avxvnni"),
    ),
    "znver1": (HASWELL, 256, ()),
    "znver2": (f"{HASWELL} clwb", 256, ()),
    "znver3": (f"{HASWELL} vaes", 256, ()),
}
ARM = {
    "cortex-a53": ("fp asimd evtstrm crc32 cpuid", "0xd03", "-march=armv8-a"),
    "cortex-a72": ("fp asimd evtstrm crc32 cpuid", "0xd08", "-march=armv8-a"),
    "cortex-a55": (
        "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp",
        "0xd05",
        "-march=armv8.2-a+fp16+dotprod",
    ),
    "cortex-a76": (
        "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp",
        "0xd0b",
        "-march=armv8.2-a+fp16+dotprod",
    ),
}


def recorded(compiler: str) -> list[tuple[str, str]]:
    """(CPU, what the compiler printed) in the order of the file."""
    text = (ANSWERS / f"{compiler}.txt").read_text(encoding="utf-8")
    return [(part.split(":", 1)[0], part) for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]]


@pytest.mark.parametrize(("cpu", "answer"), recorded("gcc"))
def test_gcc_names_the_whole_cpu_and_takes_the_flags_that_follow(cpu: str, answer: str, tmp_path: Path) -> None:
    assert native_tuning(answer) == cpu
    flags, bits, extras = X86[cpu]
    host = describe_host(
        X86_64, f"flags\t\t: {flags}\n", cores=2, l1=1 << 15, l2=1 << 20, cc="gcc", native=lambda _: cpu
    )
    assert (host.vector_bits, host.llvm_features) == (bits, extras)
    assert ("-mprefer-vector-width=512" in host.compiler.cflags) == (bits == 512)
    assert f"-mtune={cpu}" in host.compiler.cflags
    source = tmp_path / "empty.c"
    source.write_text("int empty;\n", encoding="ascii")
    if shutil.which("x86_64-linux-gnu-gcc"):  # this machine's own, or a cross compiler
        command = ["x86_64-linux-gnu-gcc", "-Werror", *host.compiler.cflags, "-c", str(source), "-o", "/dev/null"]
        subprocess.run(command, check=True)


@pytest.mark.parametrize(("cpu", "answer"), recorded("clang"))
def test_clang_is_given_instruction_sets_alone(cpu: str, answer: str) -> None:
    assert f'"-target-cpu" "{cpu}"' in answer
    assert native_tuning(answer) is None


def test_answers_cover_what_is_described() -> None:
    assert {cpu for cpu, _ in recorded("gcc")} == X86.keys()
    assert len(recorded("gcc")) + len(recorded("clang")) >= 24


@pytest.mark.parametrize("text", ["", "gcc: error: it's broken\n", " cc1 -quiet\n", "cc1 -mtune=zen\n"])
def test_other_answers_name_no_cpu(text: str) -> None:
    assert native_tuning(text) is None


def test_a_quotation_mark_that_stands_alone_is_no_command() -> None:
    assert native_tuning("gcc: warning: 'x\n it's\n /usr/lib/cc1 -E \"-mtune=znver3\"\n") == "znver3"


@pytest.mark.parametrize("cpu", ARM)
def test_arm_cores(cpu: str) -> None:
    features, part, march = ARM[cpu]
    text = f"Features\t: {features}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n"
    for compiler in ("gcc", "clang-19"):
        host = describe_host(AARCH64, text, cores=4, l1=32768, l2=524288, cc=compiler)
        assert march in host.compiler.cflags
        assert host.cpu_part == f"0x41:{part}"
        assert ("-fno-schedule-insns" in host.compiler.kernel_cflags) == (compiler == "gcc")
    small = describe_host(ARMV7, f"Features : half neon vfpv4\n{text}", cores=4, l1=32768, l2=524288, cc="gcc")
    assert "-mfpu=neon-vfpv4" in small.compiler.cflags


@pytest.mark.parametrize("columns", ["1", "40", "80", "1000"])
def test_the_terminal_of_the_caller_changes_no_flag(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    detect_host.cache_clear()
    wide = detect_host("gcc").compiler.cflags
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    detect_host.cache_clear()
    assert detect_host("gcc").compiler.cflags == wide


def test_a_table_cut_at_the_terminal_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A compiler whose table is cut, as GCC's is on an Ice Lake at 80 columns: only its commands tell the name.
    compiler = tmp_path / "gcc"
    compiler.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        "*--help=target*) echo '  -mtune=                     icelake-' ;;\n"
        '*-###*) echo \' /usr/lib/gcc/cc1 -E "-march=icelake-server" "-mtune=icelake-server"\' >&2 ;;\n'
        "esac\n",
        encoding="ascii",
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    detect_host.cache_clear()
    assert "-mtune=icelake-server" in detect_host("gcc").compiler.cflags
    detect_host.cache_clear()
