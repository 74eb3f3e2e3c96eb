"""The report that an image prints: one in another form is refused, and a fault is named with its cause."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from edgetune.boards.compiled_once import WARNINGS
from edgetune.boards.image.faults import FaultRegisters
from edgetune.boards.image.parts import image_folder
from edgetune.boards.image.report import CallVerdict, read_report
from edgetune.target.target import load_target

RIGHT = b"edgetune: 00000000 00000002 00000000 00000000 00000000 3a83126f 00000120\n"
PRECISE = 1 << 9 | 1 << 15


def test_a_report_of_a_right_candidate_is_read() -> None:
    report = read_report(RIGHT, 3)
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
        b"edgetune: 00000009" + RIGHT[18:],
        b"edgetune: 00000008" + RIGHT[18:],
        b"edgetune:\n",
    ],
)
def test_anything_else_is_no_report(output: bytes) -> None:
    assert read_report(output, 3) is None


def test_a_stray_write_around_the_scratch_is_named_so() -> None:
    after = read_report(RIGHT.replace(b"edgetune: 00000000", b"edgetune: 00000003"), 0)
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


@pytest.mark.parametrize("name", ["cortex-m0plus", "mps2-an386", "mps3-an547"])
@pytest.mark.parametrize("source", ["start.c", "harness.c", "idle.c", "plugin/bench_clock.c"])
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
