"""Array files of NumPy: inputs of a package are read from .npy and .npz as untrusted data, outputs written by name.

Nothing of a file is unpickled. Type and shape are read first, and the data only of an array that fits an input, so a
file cannot make this process read more than the package's inputs hold.
"""

from __future__ import annotations

import errno
import io
import lzma
import os
import shutil
import struct
import tempfile
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import ml_dtypes
import numpy as np

from edgetune.config.model_file import not_a_file
from edgetune.errors import DiskFull, EdgetuneError, OutputRefused, UsageError
from edgetune.graph.program import TensorSpec
from edgetune.verify.library_process import matched, told

_MAGIC, _ZIP = b"\x93NUMPY", b"PK"
_MOST_HEADER = 10_000
"""Bytes of a header; NumPy reads no longer one either."""
_MOST_NAME = 65_535
"""Bytes of a name in a zip file."""
_SUFFIX = ".npy"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_AS_BITS = np.dtype("V2")
"""What NumPy calls bfloat16 in a file."""

# What a damaged file raises. zipfile: BadZipFile for broken headers and checksums, ValueError for places outside of the
# file, EOFError for data that ends early, RuntimeError for encrypted members and unknown compressions. Decompressors:
# zlib.error, LZMAError, OSError (bz2). NumPy: ValueError.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(ValueError, OSError, EOFError, RuntimeError),
)
# NumPy evaluates a header as a literal of Python, and makes a type of what it says. This comes beside ValueError.
_NO_HEADER = (
    *(TypeError, LookupError, SyntaxError, ArithmeticError, AttributeError),
    *(RecursionError, MemoryError, tokenize.TokenError),
)


@dataclass(frozen=True)
class StoredArray:
    """An array in a file, of which only the header was read; `member` names it in an archive, None without one."""

    path: Path
    member: zipfile.ZipInfo | None
    stored: np.dtype
    shape: tuple[int, ...]
    columns_first: bool

    @property
    def dtype(self) -> np.dtype:
        """Type of an element here, whatever the order of bytes in the file is."""
        return np.dtype(ml_dtypes.bfloat16) if self.stored == _AS_BITS else self.stored.newbyteorder("=")

    def read(self) -> np.ndarray:
        """Read the data; raises UsageError for a damaged file."""
        with _intact(self.path), _stream(self.path, self.member) as stream:
            _header(stream)
            wanted = int(np.prod(self.shape)) * self.stored.itemsize
            data = stream.read(wanted)
            if len(data) < wanted:
                raise EOFError(f"it holds {len(data)} of {wanted} bytes of data")
            flat = np.frombuffer(data, self.stored)
            array = flat.reshape(self.shape, order="F" if self.columns_first else "C")
            return array.view(self.dtype) if self.stored == _AS_BITS else array.astype(self.dtype)


def read_inputs(
    words: Sequence[str], tensors: tuple[TensorSpec, ...], fields: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """The inputs of a package by name, from words as `-i` takes them: NAME=FILE.npy or FILE.npz.

    NAME is that of a tensor or its field in C, which `fields` gives by name; it may be left out where there is only one
    input. Raises UsageError: a file is missing or damaged, or the arrays do not fit `tensors`.
    """
    found: list[tuple[str, StoredArray]] = []
    for word in words:
        name, path = _split(word, {*fields, *fields.values()})
        for member, array in stored_arrays(path):
            if member is not None and name is not None:
                raise UsageError(f"{path} is an archive, whose arrays have names of their own: give it as -i {path}")
            key = member if name is None else name
            if key is None and len(tensors) == 1:
                key = tensors[0].name
            if key is None:
                raise UsageError(f"{path} has no name: give it as -i NAME={path}; {told(tensors)}")
            found.append((key, array))
    return {name: array.read() for name, array in matched(tensors, fields, found).items()}


def _split(word: str, names: Collection[str]) -> tuple[str | None, Path]:
    """Name and path in `word`. Either may hold equals signs: a name that is known, then a file that exists, decides."""
    places = [place for place, char in enumerate(word) if char == "="]
    known = [place for place in places if word[:place] in names]
    if not known and (not places or Path(word).is_file()):
        return None, Path(word)
    place = max(known, default=min(places, default=0))
    return word[:place], Path(word[place + 1 :])


def stored_arrays(path: Path) -> list[tuple[str | None, StoredArray]]:
    """The arrays of a .npy or .npz file with their names, None for that of a .npy file. Raises UsageError."""
    fault = not_a_file(path)
    if fault is not None:
        raise UsageError(f"{path} {fault}: give the path of a .npy or .npz file")
    with _intact(path):
        with path.open("rb") as file:
            begin = file.read(len(_MAGIC))
            file.seek(0)
            if begin == _MAGIC:
                return [(None, _described(path, None, file))]
        if not begin.startswith(_ZIP):
            raise UsageError(f"{path} is not a .npy or .npz file: save arrays with numpy.save or numpy.savez")
        with zipfile.ZipFile(path) as archive:
            found: list[tuple[str | None, StoredArray]] = []
            for member in archive.infolist():
                with archive.open(member) as stream:
                    found.append((member.filename.removesuffix(_SUFFIX), _described(path, member, stream)))
            return found


def stored_array(path: Path) -> StoredArray:
    """The array of a .npy file; raises OSError where it cannot be read, and ValueError where it is no such file."""
    with path.open("rb") as file:
        return _described(path, None, file)


def _described(path: Path, member: zipfile.ZipInfo | None, stream: IO[bytes]) -> StoredArray:
    shape, columns_first, dtype = _header(stream)
    if dtype.hasobject or dtype.fields is not None or dtype.subdtype is not None:
        raise ValueError("it holds objects or records instead of numbers")
    return StoredArray(path, member, dtype, shape, columns_first)


@contextmanager
def _stream(path: Path, member: zipfile.ZipInfo | None) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        if member is None:
            yield file
            return
        with zipfile.ZipFile(file) as archive, archive.open(member) as stream:
            yield stream


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type of the array that `stream` begins with; raises what is in `_DAMAGED`."""
    version = np.lib.format.read_magic(stream)
    if version not in {(1, 0), (2, 0)}:
        raise ValueError(f"it has version {version[0]}.{version[1]} of the format, and 1.0 and 2.0 can be read")
    count = stream.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(count, "little")
    if length > _MOST_HEADER:
        raise ValueError(f"its header has {length} bytes")
    text = io.BytesIO(count + stream.read(length))
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers that Python 2 wrote
        try:
            shape, columns_first, dtype = read(text)
        except _NO_HEADER:
            raise ValueError("its header does not describe an array") from None
    if any(extent < 0 for extent in shape):
        raise ValueError(f"its shape is {shape}")
    return tuple(map(int, shape)), columns_first, dtype  # numpy takes True for an extent


@contextmanager
def _intact(path: Path) -> Iterator[None]:
    """Raise UsageError where the block finds `path` damaged, or cannot read it."""
    try:
        yield
    except _DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UsageError(f"{path} cannot be read ({error.strerror}): give a file that you may read") from None
        reason = (str(error).partition("\n")[0] or type(error).__name__)[:200]
        raise UsageError(f"{path} is not a whole .npy or .npz file ({reason}): save it again with NumPy") from None


def check_place(path: Path, names: Sequence[str]) -> None:
    """Raise UsageError unless `path` can hold the outputs of these names, and OutputRefused where it cannot be written.

    The check is cheap, so that a run can make it before it starts.
    """
    if path.suffix not in {_SUFFIX, ".npz"}:
        raise UsageError(
            f"{path} must end with .npz, or with .npy where there is one output: give another name with -o"
        )
    if path.suffix == _SUFFIX and len(names) != 1:
        raise UsageError(f"{path} can hold one array, and the package has {len(names)} outputs: let -o end with .npz")
    if path.suffix != _SUFFIX and (unfit := [name for name in names if not _fits_an_archive(name)]):
        raise UsageError(f"no .npz file can hold the name of output {unfit[0][:80]!r}: leave out -o to see its range")
    if path.is_dir():
        raise OutputRefused(f"{path} is a folder: choose a file with -o")
    parent = path.resolve().parent
    if not parent.is_dir():
        raise OutputRefused(f"the folder {parent} does not exist: create it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputRefused(f"{parent} cannot be written to: make it writable or choose another folder with -o")


def _fits_an_archive(name: str) -> bool:
    """Whether a zip file gives `name` back: it ends names at a NUL, and writes them as UTF-8."""
    try:
        return "\0" not in name and len(name.encode()) + len(_SUFFIX) <= _MOST_NAME
    except UnicodeEncodeError:
        return False


def write_outputs(path: Path, outputs: Mapping[str, np.ndarray]) -> None:
    """Write `outputs` to a .npz file, or the only one to a .npy file: beside its place, then renamed.

    `numpy.load(path)[name]` gives each one back. Raises OutputRefused and DiskFull.
    """
    place = path.resolve()
    beside: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{place.name}.new-", dir=place.parent)
        beside = Path(name)
        with os.fdopen(descriptor, "w+b") as stream:
            if place.suffix == _SUFFIX:
                (array,) = outputs.values()
                np.save(stream, array, allow_pickle=False)
            else:
                _write_archive(stream, outputs)
        _take_mode(beside, place)
        beside.replace(place)
    except OSError as error:
        raise _translated(error, path) from error
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)


def _write_archive(stream: IO[bytes], outputs: Mapping[str, np.ndarray]) -> None:
    """As numpy.savez, which takes names as keywords, and so refuses some."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in outputs.items():
            # numpy.load finds a member by its whole name first: the output y.npy must not be found as member of y.
            member = name if f"{name}{_SUFFIX}" in outputs else f"{name}{_SUFFIX}"
            with archive.open(zipfile.ZipInfo(member), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _take_mode(beside: Path, place: Path) -> None:
    if place.exists():
        shutil.copymode(place, beside)
        return
    umask = os.umask(0)
    os.umask(umask)
    beside.chmod(0o666 & ~umask)


def _translated(error: OSError, path: Path) -> EdgetuneError:
    if error.errno in _FULL:
        return DiskFull(
            f"no space is left to write {path} ({error.strerror}): free some or choose another place with -o"
        )
    return OutputRefused(f"cannot write {path}: {error.strerror or error}; choose another file with -o")
