"""The machine code of a package: what its own Makefile compiles, as far as a CPU sees it.

That is instructions, constants, and the places where the linker puts addresses, without names, comments and data for
debuggers.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 1800.0
_PROGBITS, _RELA, _REL = 1, 4, 9
_ALLOCATED, _EXECUTABLE = 0x2, 0x4
_64_BIT, _LITTLE_ENDIAN = 2, 1


@dataclass(frozen=True)
class Section:
    """A section that a program loads. `relocations` are (offset, type, addend), without the names of symbols."""

    executable: bool
    contents: bytes
    relocations: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class _Header:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    info: int


def compile_objects(package: Path) -> dict[str, Path]:
    """Compile all C of a package in its folder `build` and return the objects by name; raises CalledProcessError."""
    sources = [*package.glob("src/*.[cS]"), *package.glob("test/*.[cS]")]
    objects = {f"{source.stem}.o": package / "build" / f"{source.stem}.o" for source in sorted(sources)}
    words = ["make", "-s", "-C", str(package), "OBJDIR=build", *(f"build/{name}" for name in objects)]
    subprocess.run(words, check=True, timeout=_TIMEOUT_S)
    return objects


def loaded_sections(data: bytes) -> list[Section]:
    """The sections of an object with code or constants, in order, without tables for unwinding; raises ValueError."""
    if data[:4] != b"\x7fELF" or data[5] != _LITTLE_ENDIAN:
        raise ValueError("this is no little-endian object of the ELF format")
    wide = data[4] == _64_BIT
    headers = _headers(data, wide=wide)
    found = {
        number: Section(bool(header.flags & _EXECUTABLE), data[header.offset : header.offset + header.size], ())
        for number, header in enumerate(headers)
        if header.kind == _PROGBITS and header.flags & _ALLOCATED and header.size and _counts(header.name)
    }
    for header in headers:
        if header.kind in (_RELA, _REL) and header.info in found:
            section = found[header.info]
            relocations = tuple(_relocations(data, header, wide=wide))
            found[header.info] = Section(section.executable, section.contents, relocations)
    return list(found.values())


def _counts(name: str) -> bool:
    return not name.startswith((".eh_frame", ".note", ".ARM.ex"))


def _headers(data: bytes, *, wide: bool) -> list[_Header]:
    table, layout = struct.unpack_from("<Q" if wide else "<I", data, 40 if wide else 32)[0], "<IIQQQQIIQQ"
    size, count, names = struct.unpack_from("<HHH", data, 58 if wide else 46)
    layout = layout if wide else "<IIIIIIIIII"
    rows = [struct.unpack_from(layout, data, table + number * size) for number in range(count)]
    texts = rows[names][4]

    def name(start: int) -> str:
        return data[texts + start : data.index(b"\0", texts + start)].decode()

    return [_Header(name(row[0]), row[1], row[2], row[4], row[5], row[7]) for row in rows]


def _relocations(data: bytes, table: _Header, *, wide: bool) -> Iterator[tuple[int, int, int]]:
    addends = table.kind == _RELA
    layout = ("<QQ" if wide else "<II") + (("q" if wide else "i") if addends else "")
    for row in struct.iter_unpack(layout, data[table.offset : table.offset + table.size]):
        yield row[0], row[1] & (0xFFFFFFFF if wide else 0xFF), row[2] if addends else 0
