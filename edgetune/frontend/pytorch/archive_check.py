"""Refuses a `.pt2` archive in which more than data would be read: torch unpickles, imports and evaluates parts of one.

`weights_only=True` holds for pickles that `torch.load` reads. What else torch does with the content of an archive is
looked at here, before torch sees it: compiled libraries are loaded, objects unpickled, sizes given to Python's `eval`
(by SymPy), names written into generated code, operators looked up as any attribute of `torch`, and modules imported for
the classes of nested inputs. What torch.export writes for tensors, operators and sizes passes. Nothing is executed.

torch and Python find members of an archive by different rules (case, names after a NUL, names in an extra field), so
torch reads a copy, which Python writes and which holds only what was looked at.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgetune.errors import ModelError
from edgetune.frontend.pytorch.program_check import complaints

_PROGRAM, _FIRST_PROGRAM = "models/model.json", "serialized_exported_program.json"
_MODELS, _COMPILED = "models/", "data/aotinductor/"
_PAYLOADS = frozenset({"data/weights/model_weights_config.json", "data/constants/model_constants_config.json"})
_DATA_FILE = re.compile(r"(?:weight|tensor)_\d+")
_READ = re.compile(  # what torch.export.load reads of an archive, except the programs and payloads
    r"archive_format|archive_version|byteorder|version|\.data/version"
    r"|data/(?:weights|constants)/(?:model\.pt|(?:weight|tensor)_\d+)|data/sample_inputs/model\.pt"
    r"|serialized_(?:state_dict|constants)\.(?:pt|json)|serialized_example_inputs\.pt"  # of the first format
)
_FOLDER = "program"  # torch wants one folder around all members, of any name

# What Python raises for a damaged archive. zipfile: BadZipFile for broken headers and checksums, ValueError and OSError
# for places outside of the file, EOFError for data that ends early, RuntimeError for encrypted members, and its
# NotImplementedError for unknown compressions and versions. Decompressors: zlib.error, LZMAError, OSError (bz2). json:
# ValueError for what is no JSON or no UTF-8, RecursionError for one that is nested too deeply.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(ValueError, OSError, EOFError, RuntimeError, RecursionError),
)


def require_data_only(path: Path) -> None:
    """Raises ModelError unless reading the archive executes nothing that it holds."""
    with _opened(path, path) as archive:
        _checked(archive, path.stat().st_size, path)


def copy_data(archive_path: Path, copy: Path, path: Path) -> None:
    """Writes `copy`, an archive of those members that torch reads; `path` is the archive's name in messages.

    Raises ModelError unless reading them executes nothing that they hold.
    """
    with _opened(archive_path, path) as archive, zipfile.ZipFile(copy, "w") as written:
        members = _checked(archive, archive_path.stat().st_size, path)
        folder = "" if _FIRST_PROGRAM in members else f"{_FOLDER}/"
        for inside, member in members.items():
            entry = zipfile.ZipInfo(f"{folder}{inside}")
            entry.file_size = member.file_size  # decides whether the entry needs sizes of 64 bits
            with archive.open(member.filename) as source, written.open(entry, "w") as target:
                shutil.copyfileobj(source, target)


def needs_more(path: str, what: str) -> ModelError:
    """The error for a file that holds `what`, with the lines that load it in the Python program of its author."""
    return ModelError(
        f"{path} holds {what}, and reading it may run code that the file brings. If you trust its author, load it in "
        "Python",
        lines=(f"program = torch.export.load({path!r})", "model = edgetune.load(program)", "model.build(board='host')"),
    )


@contextmanager
def _opened(archive_path: Path, path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive; raises ModelError where it turns out to be damaged."""
    try:
        with zipfile.ZipFile(archive_path) as archive:
            yield archive
    except _DAMAGED as error:
        reason = str(error).partition("\n")[0][:200]
        raise ModelError(f"{path} is not a whole program of torch.export ({reason}): save or copy it again") from None


def _checked(archive: zipfile.ZipFile, size: int, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The members that torch reads, by their paths below the folder; raises ModelError where one is more than data."""
    members = _members(archive, path)
    for inside in members:
        if inside.lower().startswith(_COMPILED):
            raise needs_more(str(path), f"a compiled library ({inside})")
    program = _program(members, path)
    read = {}
    for inside, member in members.items():
        document = inside in {program, *_PAYLOADS}
        if not document and not _READ.fullmatch(inside):
            continue
        if member.file_size > size:
            raise ModelError(f"{path} has a part that is larger than the file ({inside}): save it again")
        if document:
            _check_document(path, inside, json.loads(archive.read(member.filename).decode()))
        read[inside] = member
    return read


def _members(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """All members by their paths below the one folder that torch puts all in; the first format has no such folder."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    has_folder = all(member.filename != _FIRST_PROGRAM for member in members)
    folders = {member.filename.partition("/")[0] for member in members}
    if has_folder and len(folders) > 1:
        raise _ambiguous(path, "has more than one folder", min(folders))
    found: dict[str, zipfile.ZipInfo] = {}
    seen: set[str] = set()
    for member in members:
        name = member.filename
        if name != member.orig_filename or "\\" in name:  # a NUL, or another name in an extra field
            raise _ambiguous(path, "has a member with two names", name)
        if name.casefold() in seen:
            raise _ambiguous(path, "has two members of the same name", name)
        seen.add(name.casefold())
        found[name.partition("/")[2] if has_folder else name] = member
    return found


def _ambiguous(path: Path, what: str, name: str) -> ModelError:
    return ModelError(f"{path} {what} ({name[:80]!r}), which torch.export never writes: save it with torch.export.save")


def _program(members: Iterable[str], path: Path) -> str:
    """The member that is the program."""
    programs = [inside for inside in members if inside == _FIRST_PROGRAM or inside.lower().startswith(_MODELS)]
    if len(programs) != 1:
        raise ModelError(f"{path} holds {len(programs)} programs instead of one: save one with torch.export.save")
    if programs[0] not in {_PROGRAM, _FIRST_PROGRAM}:
        raise ModelError(f"{path} has {programs[0][:80]!r} instead of {_PROGRAM}: save it with torch.export.save")
    return programs[0]


def _check_document(path: Path, inside: str, document: Any) -> None:
    if inside in _PAYLOADS:
        _check_payload(path, document)
    for complaint in complaints(document, "payloads" if inside in _PAYLOADS else "program"):
        raise needs_more(str(path), complaint)


def _check_payload(path: Path, document: Any) -> None:
    config = document.get("config") if isinstance(document, dict) else None
    for name, payload in (config if isinstance(config, dict) else {}).items():
        file = payload.get("path_name") if isinstance(payload, dict) else None
        if not isinstance(file, str) or not _DATA_FILE.fullmatch(file):
            raise needs_more(str(path), f"an object of Python ({str(name)[:80]!r}) beside its tensors")
