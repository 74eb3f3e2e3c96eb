"""The report that an image prints: one in another form is refused, and a fault is named with its cause."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from edgetune.boards.compiled_once import WARNINGS
from edgetune.boards.image.faults import FaultRegisters, fault_of_program
from edgetune.boards.image.parts import image_folder
from edgetune.boards.image.report import CallVerdict, is_report, read_report
from edgetune.target.target import load_target

IDENTITY = 0x1234ABCD
RIGHT = b"edgetune: 1234abcd 00000000 00000002 00000000 00000000 00000000 3a83126f 00000120\n"
PRECISE = 1 << 9 | 1 << 15


def test_a_report_of_a_right_candidate_is_read() -> None:
    report = read_report(RIGHT, IDENTITY, 3)
    assert report is not None
    assert (report.verdict, report.reason, report.call, report.stack_bytes) == (CallVerdict.RIGHT, "", 2, 0x120)
    assert report.worst_relative == pytest.approx(0.001)


@pytest.mark.parametrize(
    "output",
    [
        b"",
        RIGHT[:-1],
        b"x" + RIGHT,
        RIGHT + RIGHT,
        RIGHT + b"more",
        RIGHT.replace(b"00000120", b"0000012"),
        RIGHT.replace(b"00000120", b"0000012G"),
        RIGHT.replace(b" 00000120", b""),
        b"edgetune: 1234abcd 00000009" + RIGHT[27:],
        b"edgetune: 1234abcd 00000008" + RIGHT[27:],
        b"edgetune: 1234abcc" + RIGHT[18:],
        b"edgetune: 1234abcd\n",
        b"edgetune:\n",
    ],
)
def test_anything_else_is_no_report(output: bytes) -> None:
    assert read_report(output, IDENTITY, 3) is None


def test_a_stray_write_around_the_scratch_is_named_so() -> None:
    after = read_report(RIGHT.replace(b"abcd 00000000", b"abcd 00000003"), IDENTITY, 0)
    assert after is not None
    assert after.reason == "writes to scratch after its end"


@pytest.mark.parametrize(
    ("registers", "words"),
    [
        (
            FaultRegisters(3, 0x100, PRECISE, 1 << 30, 0, 0x60000000, 0),
            "HardFault: an invalid address is accessed (instruction at 0x00000100, address 0x60000000)",
        ),
        (FaultRegisters(3, 0x100, 1 << 16, 1 << 30, 0, 0, 0), "HardFault: an undefined instruction (instruction at 0x"),
        (FaultRegisters(3, 0x100, 1 << 1 | 1 << 7, 1 << 30, 0x20, 0, 0), "protected (instruction at 0x00000100, addr"),
        (FaultRegisters(3, 0x100, 0, 1 << 30, 0, 0, 1 << 3), "memory is accessed that is not for this security state"),
        (FaultRegisters(3, 0x100, 0, 0, 0, 0, 0), "HardFault (instruction at 0x00000100)"),
        (FaultRegisters(40, 0x100, 0, 0, 0, 0, 0), "exception 40 (instruction at 0x00000100)"),
    ],
)
def test_a_fault_is_told_in_words(registers: FaultRegisters, words: str) -> None:
    assert words in registers.describe()


def test_a_report_with_cycles_has_all_of_them() -> None:
    line = RIGHT.replace(b" 00000120", b" 00000120 00000003 00000064 00000065")
    report = read_report(line, IDENTITY, 3, counted=3)
    assert report is not None
    assert report.cycles == (3, 100, 101)
    assert read_report(line, IDENTITY, 3, counted=4) is None
    assert read_report(line, IDENTITY, 3) is None


def test_the_line_of_a_report_is_known_by_the_identity_of_its_image() -> None:
    assert is_report(RIGHT[:-1], IDENTITY)
    assert not is_report(RIGHT[:-1], IDENTITY + 1)
    assert not is_report(RIGHT[:-2] + b" 12", IDENTITY)
    assert not is_report(b"edgetune:", IDENTITY)


def test_the_fault_of_a_program_is_told_in_words() -> None:
    line = f"FAIL: exception 00000003 00000100 {PRECISE:08x} 40000000 00000000 60000000"
    told = "HardFault: an invalid address is accessed (instruction at 0x00000100, address 0x60000000)"
    assert fault_of_program(line) == told
    assert fault_of_program("FAIL: a run") == ""


@pytest.mark.parametrize("name", ["cortex-m0plus", "mps2-an386", "mps3-an547"])
@pytest.mark.parametrize("source", ["start.c", "harness.c", "marks.c", "cycles.c", "idle.c", "plugin/bench_clock.c"])
def test_the_c_of_images_has_no_warning(name: str, source: str, tmp_path: Path) -> None:
    compiler = load_target(name).compiler
    words = [compiler.cc, *compiler.cflags, *WARNINGS, "-Wdouble-promotion", "-Werror"]
    command = [*words, "-c", str(image_folder() / source), "-o", str(tmp_path / "made.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"


def test_the_plugin_has_no_warning(tmp_path: Path) -> None:
    source = image_folder() / "plugin" / "regions.c"
    command = ["gcc", *WARNINGS, "-Werror", "-O2", "-fPIC", "-shared", str(source), "-o", str(tmp_path / "made.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
