"""Builds the archive of files that TVM's stock RPC server needs on a board, from wheels for its architecture.

It needs no compiler.
"""

from __future__ import annotations

import compileall
import fcntl
import hashlib
import importlib.metadata
import os
import py_compile
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from edgetune.boards.tvm_rpc.launched import LAUNCH
from edgetune.errors import BoardUnavailable, BoardUnfit, ToolHung
from edgetune.events import Event
from edgetune.resources import cache_dir
from edgetune.target.isa import INSTRUCTION_SETS
from edgetune.target.tool_process import run_tool

_NUMPY = Path(__file__).with_name("numpy_stub.py")
_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "typing-extensions", "cloudpickle")
_EXACT = ("apache-tvm", "apache-tvm-ffi")
_MACHINES = {isa.machine for isa in INSTRUCTION_SETS.values() if isa.tvm_wheels}
_GLIBCS = (17, 24, 26, 27, 28)  # manylinux tags, by the minor version of the C library
_DOWNLOAD_S = 600
_KEPT_LIBRARIES = ("tvm/lib/libtvm_runtime.so", "tvm_ffi/lib/*.so", "*.cpython-*", "*.abi3.so")
_LEFT_OUT = (
    *(f"tvm/{name}/*" for name in ("3rdparty", "cmake", "include", "lib64", "licenses", "src", "testing", "web")),
    *(f"tvm/{name}/*" for name in ("relax", "s_tir", "topi")),
    *("tvm_ffi/include/*", "tvm_ffi/share/*", "tvm_ffi/testing/*", "tvm_ffi/3rdparty/*"),
    *(
        "*/tests/*",
        "numpy/f2py/*",
        "numpy/_core/include/*",
        "numpy/_core/lib/*",
        "numpy/random/lib/*",
        "numpy/typing/*",
    ),
    *("*/tests/*", "*.pyi", "*.a", "*.h", "*.pxd", "*.pyx", "*/__pycache__/*", "*.dist-info/*"),
)


@dataclass(frozen=True)
class ServerTree:
    """A gzipped tar with `launch.py` and the packages at its top: its path, and its unpacked size in bytes."""

    archive: Path
    unpacked_bytes: int


def server_tree(
    machine: str,
    python: tuple[int, int],
    on_event: Callable[[Event], None] = lambda _: None,
    cache: Path | None = None,
) -> ServerTree:
    """Return the tree for boards of `machine` (uname -m) with that Python, made once per version in the cache.

    Raises BoardUnfit where TVM has no wheels, BoardUnavailable when they cannot be downloaded.
    """
    if machine not in _MACHINES:
        raise BoardUnfit(f"TVM has no RPC server for {machine}: use `--rpc agent`")
    folder = (cache or cache_dir()) / "tvm-server"
    archive = folder / f"{machine}-cp{python[0]}{python[1]}-{_digest()}.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    with _ours(archive):
        try:
            return ServerTree(archive, _unpacked_bytes(archive))
        except FileNotFoundError:
            pass
        except (tarfile.TarError, EOFError, zlib.error, OSError):  # damaged by a full disk or a power loss
            archive.unlink()
        with tempfile.TemporaryDirectory(prefix="tree-", dir=folder) as tree:
            if not (machine == os.uname().machine and python == sys.version_info[:2] and _take_installed(Path(tree))):
                on_event(Event("phase", {"name": f"downloading TVM's RPC server for {machine}"}))
                with tempfile.TemporaryDirectory(prefix="wheels-", dir=folder) as wheels:
                    _download(machine, python, Path(wheels))
                    _unpack(Path(wheels), Path(tree))
            _pack(Path(tree), python, archive)
        return ServerTree(archive, _unpacked_bytes(archive))


def _unpacked_bytes(archive: Path) -> int:
    with tarfile.open(archive) as packed:
        return sum(member.size for member in packed)


@contextmanager
def _ours(archive: Path) -> Iterator[None]:
    """Lock the archive against other threads and processes that would make it."""
    with archive.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _digest() -> str:
    pinned = [f"{name}=={importlib.metadata.version(name)}" for name in _EXACT]
    text = "\n".join([*pinned, *(source.read_text() for source in (LAUNCH, _NUMPY, Path(__file__)))])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _download(machine: str, python: tuple[int, int], folder: Path) -> None:
    wanted = [f"{name}=={importlib.metadata.version(name)}" if name in _EXACT else name for name in _PACKAGES]
    tag = f"cp{python[0]}{python[1]}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--dest", str(folder), "--implementation", "cp", "--python-version", f"{python[0]}.{python[1]}"]
    command += [word for abi in (tag, "abi3", "none") for word in ("--abi", abi)]
    command += [word for minor in _GLIBCS for word in ("--platform", f"manylinux_2_{minor}_{machine}")]
    command += ["--platform", f"manylinux2014_{machine}", *wanted]
    try:
        run_tool(command, timeout_s=_DOWNLOAD_S, check=True, environment=os.environ)  # pip has settings of its own
    except (OSError, ToolHung, subprocess.SubprocessError) as error:
        words = str(getattr(error, "stderr", None) or error).strip().splitlines()
        reason = next((line for line in words if line.startswith("ERROR")), words[-1] if words else "no reason given")
        raise BoardUnavailable(
            f"the wheels of TVM's RPC server for {machine}, Python {python[0]}.{python[1]}, cannot be downloaded "
            f"({reason[:200]}): use `--rpc agent`, or try again with a network"
        ) from error


def _take_installed(tree: Path) -> bool:
    """Copy the packages installed here, for boards like this machine; False where a package has no files here."""
    for name in _PACKAGES:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            return False
        wanted = [file for file in files if ".." not in file.parts and _belongs(str(file))]
        if not wanted:
            return False
        for file in wanted:
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(file.locate()), tree / file)
    return True


def _unpack(wheels: Path, tree: Path) -> None:
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as packed:
            for name in filter(_belongs, packed.namelist()):
                packed.extract(name, tree)


def _pack(tree: Path, python: tuple[int, int], archive: Path) -> None:
    shutil.copy(LAUNCH, tree)
    shutil.copy(_NUMPY, tree / "numpy.py")
    if python == sys.version_info[:2]:  # compile here, because compiling at every start is slow on a board
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(tree, quiet=2, legacy=True, invalidation_mode=unchecked)
        for source in tree.rglob("*.py"):
            if source.name != LAUNCH.name and source.with_suffix(".pyc").exists():
                source.unlink()
    beside = archive.with_suffix(".part")
    with tarfile.open(beside, "w:gz", compresslevel=6) as out:
        for path in sorted(tree.rglob("*")):
            if path.is_file():
                out.add(path, str(path.relative_to(tree)), filter=_plain)
    beside.replace(archive)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o644
    return info


def _belongs(name: str) -> bool:
    if name.endswith(".dist-info/METADATA"):  # packages read their own version from it
        return True
    if ".so" in Path(name).name and not any(fnmatch(name, pattern) for pattern in _KEPT_LIBRARIES):
        return False
    return not any(fnmatch(name, pattern) for pattern in _LEFT_OUT)
