"""The RAM that the report of a package states is what the linker's map gives the smallest program that runs it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetune.package.interface import CONTEXT_WORDS
from tests.distribution_sample import edgetune
from tests.target.test_own_microcontroller import MODEL

BOARD = "nrf52840"
# An input section, whose name may have a line of its own: address, size, file.
_SECTION = re.compile(r"^ (\.(?:data|bss)\S*|COMMON)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$", re.MULTILINE)


def statics(text: str) -> Iterator[tuple[str, int]]:
    """The files in a map with the bytes of each section of theirs that lies in RAM."""
    placed = text[text.index("Linker script and memory map") :]
    for _, size, file in _SECTION.findall(placed):
        yield file, int(size, 16)


def test_sections_are_read_with_long_names_too() -> None:
    text = """.bss of discarded sections comes first
Linker script and memory map
 .data          0x20000000       0x64 libc.a(lib_a-impure.o)
 .bss.a_name_of_its_own_line
                0x20000064       0x10 main.o
 COMMON         0x20000074        0x8 main.o
 .text          0x00000000      0x100 main.o
"""
    assert list(statics(text)) == [("libc.a(lib_a-impure.o)", 0x64), ("main.o", 0x10), ("main.o", 8)]


@pytest.mark.skipif(not MODEL.is_file(), reason=f"{MODEL} is not there")
@pytest.mark.parametrize("io", ["caller", "arena"])
def test_report_and_map_agree(tmp_path: Path, io: str) -> None:
    done = edgetune(["build", str(MODEL), "--board", BOARD, "--io", io, "-o", "package"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    package = tmp_path / "package"
    command = ["make", "-s", "build/ad_int8_example", "LDFLAGS=-Wl,-Map,build/example.map"]
    subprocess.run(command, cwd=package, check=True)
    found = list(statics((package / "build/example.map").read_text()))
    library = [size for file, size in found if "libad_int8.a" in file]
    assert len(library) >= 8, "four objects have .data and .bss"
    assert sum(library) == 0, "the library has no variables: all its memory is the caller's"
    memory = json.loads((package / "MANIFEST.json").read_text())["memory"]
    callers = sum(size for file, size in found if file.endswith("ad_int8_example.o"))
    beside = memory["io_bytes"] if io == "caller" else 0
    assert callers == memory["workspace_bytes"] + 8 * CONTEXT_WORDS + beside
    stated = re.search(r"^\| \*\*RAM in all\*\*.*\| ([\d,]+) \|$", (package / "REPORT.md").read_text(), re.MULTILINE)
    assert stated is not None
    assert int(stated[1].replace(",", "")) == callers + memory["call_stack_bytes"]
    assert memory["arena_bytes"] == memory["workspace_bytes"], "no threads share it"
