"""A compiler that fails for want of room or of a C library: the error is that want, not the code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from edgetune.errors import CompileFailed, DiskFull, MemoryLimitExceeded, ToolchainMissing
from edgetune.package.diagnostics import compile_failure, first_diagnostic
from edgetune.target.libc import lacks_libc, libc_package
from tests import package_sample as sample
from tests.acceptance.case import command_line, last_line, run_status
from tests.missing_tools import LEFT_OUT, require_mounts


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compile") / "package"
    sample.emit(folder)
    return folder


def verify_after(emitted: Path, tmp_path: Path, mounts: str, *words: str, temporary: Path) -> tuple[int, str]:
    """Verify where `mounts` were mounted, in a namespace of its own."""
    require_mounts()
    script = f'{mounts} && exec "$@"; exit 99'
    command = command_line("verify", emitted, *words)
    environment = {"TMPDIR": str(temporary)}
    done = run_status("unshare", "-rm", "sh", "-c", script, "sh", *command, cwd=tmp_path, environment=environment)
    return done.returncode, last_line(done.stderr)


@pytest.mark.long
def test_a_disk_that_fills_while_verify_compiles(emitted: Path, tmp_path: Path) -> None:
    """Whether the copy, the compiler, the archiver or the linker meets the end of it."""
    room = tmp_path / "room"
    room.mkdir()
    copied = sum(-(-path.stat().st_size // 4096) * 4 for path in emitted.rglob("*") if path.is_file())
    for kilobytes in (copied // 2, copied + 24, copied + 48, copied + 72):
        mount = f"mount -t tmpfs -o size={kilobytes}k none {room}"
        code, sentence = verify_after(emitted, tmp_path, mount, temporary=room)
        assert code == DiskFull.exit_code, (kilobytes, sentence)
        assert "no space is left" in sentence


@pytest.mark.parametrize(("what", "region"), [("const char large[100] = {1}", "FLASH"), ("char large[100]", "RAM")])
def test_a_program_that_is_too_large_for_its_board(tmp_path: Path, what: str, region: str) -> None:
    """The linker's own words, of a board's code and of its variables."""
    (tmp_path / "large.c").write_text(f"{what}; int main(void) {{ return large[0]; }}\n", encoding="ascii")
    regions = "FLASH (rx) : ORIGIN = 0, LENGTH = 80 RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 80"
    places = ".text : { *(.text*) *(.rodata*) *(.ARM*) } > FLASH .bss : { *(.data*) *(.bss*) } > RAM"
    (tmp_path / "script.ld").write_text(f"MEMORY {{ {regions} }} SECTIONS {{ {places} }}\n", encoding="ascii")
    command = [
        "arm-none-eabi-gcc",
        "-nostdlib",
        "-mcpu=cortex-m4",
        "-mthumb",
        "large.c",
        "-Wl,-T,script.ld",
        "-e",
        "main",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    error = compile_failure("arm-none-eabi-gcc", "build/p_selftest", done.stderr, tmp_path)
    assert isinstance(error, MemoryLimitExceeded)
    assert re.match(
        r"build/p_selftest does not fit the memory_map of the board: ld: .*\bregion `" + region, error.message
    )


@pytest.mark.long
@pytest.mark.parametrize("gone", [("aarch64-linux-gnu/lib",), ("aarch64-linux-gnu/include", "include")])
def test_a_cross_compiler_without_its_libc(tmp_path: Path, gone: tuple[str, ...]) -> None:
    """As where gcc-aarch64-linux-gnu was installed without what it recommends."""
    package = tmp_path / "arm"
    sample.emit(package, target=sample.arm("rpi4"))
    mount = " && ".join(f"mount -t tmpfs none /usr/{folder}" for folder in gone)
    code, sentence = verify_after(package, tmp_path, mount, temporary=tmp_path)
    assert code == ToolchainMissing.exit_code, sentence
    assert "aarch64-linux-gnu-gcc has no C library" in sentence
    assert "sudo apt-get install libc6-dev-arm64-cross" in sentence


SAID = {
    "gcc, header": "kernel.c:1:10: fatal error: stdio.h: No such file or directory",
    "gcc, inner header": "/usr/include/features.h:527:12: fatal error: gnu/stubs-32.h: No such file or directory",
    "gcc, no folder": "a.c:1:19: error: no include path in which to search for math.h",
    "clang, header": "a.c:1:10: fatal error: 'stdio.h' file not found",
    "bfd, start": "/usr/bin/ld: cannot find crt1.o: No such file or directory",
    "bfd, path": "/usr/bin/ld: cannot find /lib/Scrt1.o: No such file or directory",
    "bfd, libm": "/usr/bin/ld: cannot find -lm: No such file or directory",
    "bfd, end of line": "/usr/bin/ld: cannot find -lc\ncollect2: error: ld returned 1 exit status",
    "bfd, shared": "ld: cannot find /lib/aarch64-linux-gnu/libm.so.6 inside /usr",
    "lld": "ld.lld: error: cannot open crt1.o: No such file or directory",
    "lld, library": "ld.lld: error: unable to find library -lm",
}


@pytest.mark.parametrize("case", SAID)
def test_what_compilers_say_without_a_libc(case: str, tmp_path: Path) -> None:
    assert lacks_libc(SAID[case])
    assert isinstance(compile_failure("gcc", "x", SAID[case], tmp_path), ToolchainMissing)


@pytest.mark.parametrize(
    "said",
    [
        "kernel.c:3:1: error: 'nobody' undeclared",
        "kernel.c:1:10: fatal error: tiny.h: No such file or directory",
        "/usr/bin/ld: cannot find -lmine: No such file or directory",
        "make: *** No rule to make target 'stdio.h'",
        "collect2: fatal error: ld terminated with signal 7 [Bus error]",  # there is room here
    ],
)
def test_what_is_a_failure_of_the_code(said: str, tmp_path: Path) -> None:
    assert not lacks_libc(said)
    assert isinstance(compile_failure("gcc", "x", said, tmp_path), CompileFailed)


@pytest.mark.long
@pytest.mark.parametrize(
    ("cc", "flags", "package"),
    [
        ("gcc", (), "libc6-dev"),
        ("/opt/bin/aarch64-linux-gnu-gcc-12", (), "libc6-dev-arm64-cross"),
        ("arm-linux-gnueabihf-gcc", (), "libc6-dev-armhf-cross"),
        ("arm-linux-gnueabi-gcc", (), "libc6-dev-armel-cross"),
        ("riscv64-linux-gnu-gcc", (), "libc6-dev-riscv64-cross"),
        ("arm-none-eabi-gcc", (), "libnewlib-arm-none-eabi"),
        ("clang-19", ("-O2", "--target=aarch64-linux-gnu"), "libc6-dev-arm64-cross"),
    ],
)
def test_the_package_of_the_libc(cc: str, flags: tuple[str, ...], package: str) -> None:
    assert libc_package(cc, flags) == package
    if not any(Path("/var/lib/apt/lists").glob("*Packages*")):
        pytest.skip(f"{LEFT_OUT}the lists of apt's packages (apt-get update)")
    known = subprocess.run(["apt-cache", "show", package], capture_output=True, text=True, check=False)
    assert f"Package: {package}" in known.stdout


@pytest.mark.parametrize(
    ("output", "first"),
    [
        (
            (
                "/usr/arm/bin/ld: build/p section `.bss' will not fit in region `RAM'\n/usr/arm/bin/ld: region `RAM' "
                "overflowed by 72 bytes\ncollect2: error: ld returned 1 exit status\nmake: *** [b/p] Error 1\n"
            ),
            "ld: region `RAM' overflowed by 72 bytes",
        ),
        ("/usr/bin/arm-none-eabi-ld.bfd: no stack\ncollect2: error: ld returned 1\n", "arm-none-eabi-ld.bfd: no stack"),
        ("collect2: fatal error: cannot find 'ld'\n", "collect2: fatal error: cannot find 'ld'"),
        ("cc1: x.c: no\nmake[1]: *** [a.o] Error 1\n", "cc1: x.c: no"),
    ],
)
def test_what_a_linker_says_is_shown_not_that_it_failed(output: str, first: str) -> None:
    assert first_diagnostic(output) == first
