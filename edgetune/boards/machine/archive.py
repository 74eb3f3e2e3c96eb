"""File system of an emulated board: writes packages and our own files into one cpio archive for the kernel."""

from __future__ import annotations

import fnmatch
import lzma
import re
import stat
import subprocess
import tarfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from edgetune.boards.machine.recipe import Recipe
from edgetune.errors import BoardUnavailable, ToolHung
from edgetune.ipc.process_group import kill_group, program
from edgetune.target.tool_process import hung

_MERGED = ("bin", "sbin", "lib")  # symbolic links to the folders of these names in usr/
_MODULES = "usr/lib/modules/start"
_FOLDER = stat.S_IFDIR | 0o755
_FILE = stat.S_IFREG | 0o644
_PROGRAM = stat.S_IFREG | 0o755
_SECRET = stat.S_IFREG | 0o600
_LINK = stat.S_IFLNK | 0o777
_COMPRESSED = (".ko", ".ko.xz")
_UNPACK_S = 600.0


@dataclass(frozen=True)
class ArchiveEntry:
    """One file, folder or link: mode with file type, owner and group, and content or link target."""

    mode: int
    content: bytes = b""
    owner: int = 0
    group: int = 0


class FileSystem:
    """Files by path, without leading slash; /bin, /sbin and /lib are links into usr/, as in Debian."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._entries: dict[str, ArchiveEntry] = {name: ArchiveEntry(_LINK, f"usr/{name}".encode()) for name in _MERGED}
        self._entries["."] = ArchiveEntry(_FOLDER)  # otherwise every user could write to the root folder
        for name in ("dev", "proc", "sys", "run", "etc", "home", "var", "usr/bin", "usr/sbin", "usr/lib"):
            self._entries[name] = ArchiveEntry(_FOLDER)
        for name in ("tmp", "var/tmp"):
            self._entries[name] = ArchiveEntry(stat.S_IFDIR | 0o1777)
        self._entries["root"] = ArchiveEntry(stat.S_IFDIR | 0o700)
        self._entries[f"home/{recipe.user}"] = ArchiveEntry(_FOLDER, owner=1000, group=1000)

    def add_package(self, package: Path) -> None:
        """Add the files of a Debian package; raises BoardUnavailable when it cannot be read."""
        for member, content in _members(package):
            path = _merged(member.name)
            if not path or path in _MERGED or self._left_out(path):
                continue
            if member.isdir():
                self._entries.setdefault(path, ArchiveEntry(stat.S_IFDIR | member.mode, b"", member.uid, member.gid))
            elif member.issym():
                self._entries[path] = ArchiveEntry(_LINK, member.linkname.encode())
            elif member.islnk():
                self._entries[path] = self._entries[_merged(member.linkname)]
            elif member.isreg():
                self._entries[path] = ArchiveEntry(stat.S_IFREG | member.mode, content, member.uid, member.gid)

    def add_kernel(self, package: Path) -> bytes:
        """Add the modules to load at the start, in load order; return the kernel itself."""
        kernel, modules = b"", {}
        for member, content in _members(package):
            name = member.name.removeprefix("./")
            if name.startswith("boot/vmlinuz"):
                kernel = content
            elif name.endswith(_COMPRESSED):
                modules[Path(name).name.partition(".")[0].replace("-", "_")] = content
        if not kernel:
            raise BoardUnavailable(f"package {package.name} has no kernel in boot/: correct 'kernel' in the recipe")
        for position, name in enumerate(_load_order(self._recipe.modules, modules, package)):
            self._entries[f"{_MODULES}/{position:02}-{name}.ko"] = ArchiveEntry(_FILE, _plain(modules[name]))
        return kernel

    def add_file(self, path: str, content: bytes, *, secret: bool = False) -> None:
        """Add our own file, owned by root; a file that starts with #! is executable."""
        mode = _SECRET if secret else _PROGRAM if content.startswith(b"#!") else _FILE
        self._entries[_merged(path)] = ArchiveEntry(mode, content)

    def add_link(self, path: str, leads_to: str) -> None:
        """Add a symbolic link."""
        self._entries[_merged(path)] = ArchiveEntry(_LINK, leads_to.encode())

    def write(self, file: BinaryIO) -> None:
        """Write all entries as a cpio archive (format newc). The same content gives the same bytes."""
        paths = set(self._entries)
        for path in self._entries:
            paths.update(str(parent) for parent in Path(path).parents)
        for number, path in enumerate(sorted(paths), start=1):
            _write_entry(file, path, number, self._entries.get(path, ArchiveEntry(_FOLDER)))
        _write_entry(file, "TRAILER!!!", 0, ArchiveEntry(0))

    def _left_out(self, path: str) -> bool:
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self._recipe.without_files)


def _members(package: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Yield every member with its content; raises BoardUnavailable when it is damaged, ToolHung."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with program(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as unpack:
        deadline = threading.Timer(_UNPACK_S, kill_group, [unpack.pid])
        deadline.start()
        try:
            with tarfile.open(fileobj=unpack.stdout, mode="r|") as archive:
                for member in archive:
                    file = archive.extractfile(member) if member.isreg() else None
                    yield member, file.read() if file is not None else b""
            unpack.communicate()  # read the padding at the end
            damaged = unpack.returncode != 0
        except tarfile.TarError:
            damaged = True
        finally:
            late = deadline.finished.is_set()
            deadline.cancel()
    if late:
        raise ToolHung(hung(command, _UNPACK_S))
    if damaged:
        raise BoardUnavailable(f"package {package} is damaged: remove the file and run this again")


def _merged(path: str) -> str:
    path = path.removeprefix("./").strip("/")
    first, _, rest = path.partition("/")
    return f"usr/{path}" if first in _MERGED and rest else path


def _load_order(wanted: Iterable[str], modules: dict[str, bytes], package: Path) -> list[str]:
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name not in modules:
            raise BoardUnavailable(f"package {package.name} has no module {name}: correct 'modules' in the recipe")
        found = re.search(rb"\0depends=([^\0]*)\0", _plain(modules[name]))
        for needed in found[1].decode().split(",") if found and found[1] else []:
            visit(needed.replace("-", "_"))
        order.append(name)

    for name in wanted:
        visit(name)
    return order


def _plain(module: bytes) -> bytes:
    return lzma.decompress(module) if module.startswith(b"\xfd7zXZ\0") else module


def _write_entry(file: BinaryIO, path: str, number: int, entry: ArchiveEntry) -> None:
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, entry.owner, entry.group, links, 0, len(entry.content), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(f"{value:08X}".encode() for value in fields)
    for part in (header + name, entry.content):
        file.write(part)
        file.write(b"\0" * (-len(part) % 4))
