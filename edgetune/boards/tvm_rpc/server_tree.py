"""The files that TVM's stock RPC server needs on a board, from wheels for its architecture, without a compiler."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from io import BytesIO
from pathlib import Path

from edgetune.boards.tvm_rpc.launched import LAUNCH
from edgetune.config.resources import cache_dir
from edgetune.errors import BoardUnavailable, BoardUnfit
from edgetune.events import Event

_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "numpy", "typing-extensions", "cloudpickle")
_EXACT = ("apache-tvm", "apache-tvm-ffi")
_MACHINES = {"aarch64", "x86_64"}
_GLIBCS = (17, 24, 26, 27, 28)  # manylinux tags, by the minor version of the C library
_DOWNLOAD_S = 600
_KEPT_LIBRARIES = ("tvm/lib/libtvm_runtime.so", "tvm_ffi/lib/*.so", "numpy.libs/*", "*.cpython-*", "*.abi3.so")
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
    *("*.pyi", "*.a", "*.h", "*.pxd", "*.pyx", "*/__pycache__/*", "*.dist-info/*"),
)


@dataclass(frozen=True)
class ServerTree:
    """A gzipped tar with `launch.py` and the packages at its top: where it is, and how many bytes it unpacks to."""

    archive: Path
    unpacked_bytes: int


def server_tree(
    machine: str,
    python: tuple[int, int],
    on_event: Callable[[Event], None] = lambda _: None,
    cache: Path | None = None,
) -> ServerTree:
    """Return the tree for boards of `machine` (uname -m) with that Python, made once per version into the cache.

    Raises BoardUnfit where TVM has no wheels, BoardUnavailable when they cannot be downloaded.
    """
    if machine not in _MACHINES:
        raise BoardUnfit(f"TVM has no RPC server for {machine}: use `--rpc agent`")
    folder = (cache or cache_dir()) / "tvm-server"
    archive = folder / f"{machine}-cp{python[0]}{python[1]}-{_digest()}.tar.gz"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        on_event(Event("phase", {"name": f"downloading TVM's RPC server for {machine}"}))
        with tempfile.TemporaryDirectory(prefix="wheels-", dir=folder) as wheels:
            _download(machine, python, Path(wheels))
            _pack(Path(wheels), archive)
    with tarfile.open(archive) as packed:
        unpacked = sum(member.size for member in packed)
    return ServerTree(archive, unpacked)


def _digest() -> str:
    pinned = [f"{name}=={importlib.metadata.version(name)}" for name in _EXACT]
    text = "\n".join([*pinned, *_PACKAGES, *_LEFT_OUT, *_KEPT_LIBRARIES, LAUNCH.read_text()])
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
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=_DOWNLOAD_S)
    except (OSError, subprocess.SubprocessError) as error:
        words = str(getattr(error, "stderr", None) or error).strip().splitlines()
        reason = next((line for line in words if line.startswith("ERROR")), words[-1] if words else "no reason given")
        raise BoardUnavailable(
            f"the wheels of TVM's RPC server for {machine}, Python {python[0]}.{python[1]}, cannot be downloaded "
            f"({reason[:200]}): use `--rpc agent`, or try again with a network"
        ) from error


def _pack(wheels: Path, archive: Path) -> None:
    beside = archive.with_suffix(f".{os.getpid()}")
    with tarfile.open(beside, "w:gz", compresslevel=6) as packed:
        packed.add(LAUNCH, LAUNCH.name)
        for name, content in _members(wheels):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            packed.addfile(info, BytesIO(content))
    beside.replace(archive)


def _members(wheels: Path) -> Iterator[tuple[str, bytes]]:
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                if not name.endswith("/") and _belongs(name):
                    yield name, packed.read(name)
            yield from _version_of(packed)


def _belongs(name: str) -> bool:
    if ".so" in Path(name).name and not any(fnmatch(name, pattern) for pattern in _KEPT_LIBRARIES):
        return False
    return not any(fnmatch(name, pattern) for pattern in _LEFT_OUT)


def _version_of(packed: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """Packages look their own version up by this file."""
    for name in packed.namelist():
        if name.endswith(".dist-info/METADATA"):
            yield name, packed.read(name)
