"""External tensors of an ONNX model: finds them, maps their bytes into memory, and hashes the model with its data.

ONNX lets any tensor of a file keep its data in another file, which the entries of ``external_data`` name by location,
offset and length (docs/ExternalData.md of ONNX). Here each of them is found and checked once, before any other step
reads the model. Locations are relative to the model's folder and must stay within it.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath

import numpy as np
import onnx
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper

from edgetune.errors import ModelError

_PACKED_BITS = {
    **dict.fromkeys((TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1), 4),
    **dict.fromkeys((TensorProto.INT2, TensorProto.UINT2), 2),
    **dict.fromkeys((TensorProto.FLOAT6E2M3, TensorProto.FLOAT6E3M2), 6),
}
_KINDS = dict(zip(TensorProto.DataType.values(), TensorProto.DataType.keys(), strict=True))
_NUMBER = re.compile(r"[0-9]{1,30}")
_INLINE_FIELDS = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_MOST_AXES = 64
_SHOWN_AXES = 8
_MOST_BITS = 1 << 63
# A memory map keeps a descriptor open, and a process may have about a thousand.
_MOST_MAPS = 256
_HASHED_AT_ONCE = 1 << 26


@dataclass(frozen=True)
class ByteRange:
    """Where an external tensor is: `size` bytes from `offset` of the file `location`, a POSIX path."""

    location: str
    offset: int
    size: int

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.size


class ExternalData:
    """The data files of one model: `bytes_of` gives the bytes of its tensors, `sha256` the hash of the model."""

    def __init__(self, proto: onnx.ModelProto, model: Path) -> None:
        """Finds every external tensor of `proto`, read from the file `model`, and opens their data files.

        Raises ModelError when an entry is wrong, when a location leads out of the model's folder, and when a file is
        missing, unreadable, no regular file or too short.
        """
        self._model = model
        self._files: dict[str, memoryview] = {}
        self._ranges: dict[str, set[tuple[int, int]]] = {}
        for tensor in external_tensors(proto):
            needed = self.byte_range(tensor)
            if needed.location not in self._files:
                self._files[needed.location] = self._open(needed.location, tensor)
            size = len(self._files[needed.location])
            if needed.end > size:
                raise ModelError(
                    f"{self._named(tensor)} needs bytes {needed.offset} to {needed.end} of {needed.location!r}, "
                    f"which has {size}; copy that file again, or export the model again"
                )
            self._ranges.setdefault(needed.location, set()).add((needed.offset, needed.end))

    def bytes_of(self, tensor: TensorProto) -> memoryview:
        """The bytes of an external tensor of the model: a view of a memory map, read on access."""
        there = self.byte_range(tensor)
        return self._files[there.location][there.offset : there.end]

    def sha256(self, data: bytes) -> str:
        """The hash of the model whose ONNX file holds `data`, in hex.

        Without external tensors it is the SHA-256 of the file. With some it is the SHA-256 of a text of one line each
        for the ONNX file and for every data file in order of location: the SHA-256, in hex, of the ONNX file, and of
        those bytes of the data file that belong to a tensor, in ascending order and each byte once. Alignment gaps are
        left out, and tensors may share bytes.
        """
        own = hashlib.sha256(data).hexdigest()
        if not self._files:
            return own
        lines = [own, *(self._digest(location) for location in sorted(self._files))]
        return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()

    def byte_range(self, tensor: TensorProto) -> ByteRange:
        """Where `tensor` is, according to its entries; raises ModelError when they or its shape and type are wrong."""
        entries: dict[str, str] = {}
        for entry in tensor.external_data:
            if entry.key in entries:
                raise ModelError(f"{self._named(tensor)} has two entries {entry.key!r}; export the model again")
            entries[entry.key] = entry.value
        if any(len(getattr(tensor, field)) for field in _INLINE_FIELDS):
            raise ModelError(f"{self._named(tensor)} has data in the file as well; export the model again")
        size = self._size(tensor)
        offset = self._number(tensor, entries, "offset", 0)
        if self._number(tensor, entries, "length", size) != size:
            raise ModelError(
                f"{self._named(tensor)} has the length {entries['length']}, but its shape and type need {size} bytes; "
                "export the model again"
            )
        return ByteRange(self._location(tensor, entries.get("location", "")), offset, size)

    def _size(self, tensor: TensorProto) -> int:
        kind = _KINDS.get(tensor.data_type, str(tensor.data_type))
        item = element_bits(tensor.data_type)
        if item is None:
            raise ModelError(
                f"{self._named(tensor)} has the type {kind}, which cannot lie outside the file; export the model again"
            )
        possible = len(tensor.dims) <= _MOST_AXES and all(extent >= 0 for extent in tensor.dims)
        bits = prod(tensor.dims) * item if possible else -1
        if not 0 <= bits <= _MOST_BITS:
            shown = ", ".join(map(str, tensor.dims[:_SHOWN_AXES])) + (", ..." if len(tensor.dims) > _SHOWN_AXES else "")
            raise ModelError(
                f"{self._named(tensor)} has the shape ({shown}), which is not valid; export the model again"
            )
        return int(-(-bits // 8))

    def _number(self, tensor: TensorProto, entries: Mapping[str, str], key: str, default: int) -> int:
        if key not in entries:
            return default
        if not _NUMBER.fullmatch(entries[key]):
            raise ModelError(
                f"{self._named(tensor)} has the {key} {entries[key][:40]!r}, which is not a number of bytes; "
                "export the model again"
            )
        return int(entries[key])

    def _location(self, tensor: TensorProto, location: str) -> str:
        path = PurePosixPath(location)
        if not path.parts or "\0" in location:
            raise ModelError(
                f"{self._named(tensor)} does not name the file that holds its data (location {location!r}); "
                "export the model again"
            )
        if path.is_absolute() or ".." in path.parts:
            raise ModelError(self._outside(tensor, location))
        return path.as_posix()

    def _open(self, location: str, tensor: TensorProto) -> memoryview:
        """The content of a data file; the first ones are mapped, the rest are read."""
        try:
            real = (self._model.parent / location).resolve(strict=True)
            if not real.is_relative_to(self._model.parent.resolve()):
                raise ModelError(self._outside(tensor, location))
            with open(real, "rb", opener=_opened) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise ModelError(
                        f"{self._named(tensor)} lies in {location!r}, which is not a regular file; copy the data there"
                    )
                if not status.st_size:
                    return memoryview(b"")  # an empty file cannot be mapped
                if len(self._files) >= _MOST_MAPS:
                    return memoryview(file.read())
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (FileNotFoundError, NotADirectoryError):
            raise ModelError(
                f"{self._named(tensor)} lies in {location!r}, which is not in the model's folder "
                f"{self._model.parent.absolute()}; copy it there"
            ) from None
        except (OSError, RuntimeError) as error:  # resolve() raises RuntimeError for a cycle of links
            reason = error.strerror if isinstance(error, OSError) else "its links form a circle"
            raise ModelError(
                f"{self._named(tensor)} lies in {location!r}, which cannot be read ({reason}); copy the file again"
            ) from None

    def _digest(self, location: str) -> str:
        found = hashlib.sha256()
        end = 0
        for first, last in sorted(self._ranges[location]):
            start, end = max(first, end), max(last, end)
            for begin in range(start, end, _HASHED_AT_ONCE):
                found.update(self._files[location][begin : min(begin + _HASHED_AT_ONCE, end)])
        return found.hexdigest()

    def _named(self, tensor: TensorProto) -> str:
        return f"tensor {tensor.name!r} of {self._model}" if tensor.name else f"an unnamed tensor of {self._model}"

    def _outside(self, tensor: TensorProto, location: str) -> str:
        return (
            f"{self._named(tensor)} lies in {location!r}, outside the model's folder; "
            "copy that file into the folder and export the model again"
        )


def _opened(path: str, flags: int) -> int:
    # Do not block on a FIFO, and do not follow the path if it has become a link by now.
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def external_tensors(proto: onnx.ModelProto) -> Iterator[TensorProto]:
    """Every tensor of `proto` that keeps its data in another file, wherever it is, in the order of the file."""
    return (tensor for tensor in tensors(proto) if tensor.data_location == TensorProto.EXTERNAL)


def element_bits(data_type: int) -> int | None:
    """Bits of an element of this type; None for types without a fixed size, and for numbers that are no type."""
    if _KINDS.get(data_type, "UNDEFINED") in {"UNDEFINED", "STRING"}:
        return None
    return _PACKED_BITS.get(data_type) or 8 * helper.tensor_dtype_to_np_dtype(data_type).itemsize


def array_of(tensor: TensorProto, content: memoryview) -> np.ndarray:
    """The values of a tensor whose bytes are `content`: a view of them where NumPy has the type, else a copy."""
    if tensor.data_type in _PACKED_BITS:
        inline = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=bytes(content))
        return np.asarray(onnx.numpy_helper.to_array(inline))
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    # Data may lie at any offset, but computations need aligned elements.
    return np.require(np.frombuffer(content, dtype).reshape(tuple(tensor.dims)), requirements="A")


def tensors(message: Message) -> Iterator[TensorProto]:
    """Every tensor of `message`, found from the definition of ONNX's messages, so that no place is missed."""
    if isinstance(message, TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.full_name in _HOLDERS:
            for part in value if field.is_repeated else (value,):
                yield from tensors(part)


def _holders(root: Descriptor) -> frozenset[str]:
    """Names of the message types, reachable from `root`, that are a TensorProto or may hold one."""
    parts: dict[str, set[str]] = {}
    waiting = [root]
    while waiting:
        message = waiting.pop()
        if message.full_name not in parts:
            inner = [field.message_type for field in message.fields if field.message_type is not None]
            parts[message.full_name] = {part.full_name for part in inner}
            waiting += inner
    holders = {TensorProto.DESCRIPTOR.full_name}
    while grown := {name for name, inner in parts.items() if inner & holders} - holders:
        holders |= grown
    return frozenset(holders)


_HOLDERS = _holders(onnx.ModelProto.DESCRIPTOR)
