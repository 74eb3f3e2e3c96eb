"""TVM RPC client without TVM's Python package: the worker's side of a session, by functions of TVM's runtime library.

It also caches arrays on the board by content: each is sent once, and kept while there is room.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.boards.protocol import OUTPUTS
from edgetune.ipc.child_process import describe_exit

_CACHED_BYTES = 64 << 20  # a small board can spare this much; one candidate may need more


class RemoteArrays:
    """`allocate` makes a tensor of so many bytes on the board, `fill` copies bytes to it; their errors are passed on.

    The least recently used arrays of finished candidates make room for new ones.
    """

    def __init__(
        self, allocate: Callable[[int], Any], fill: Callable[[Any, np.ndarray], None], most_bytes: int = _CACHED_BYTES
    ) -> None:
        self._allocate, self._fill, self._most_bytes = allocate, fill, most_bytes
        self._there: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._needed: set[bytes] = set()  # by the next candidate, or the current one
        self._tried = False

    def bring(self, content: np.ndarray) -> None:
        """Send bytes that the next candidate needs."""
        if self._tried:
            self._needed.clear()
            self._tried = False
        key = _key(content, "")
        self._needed.add(key)
        self._tensor(key, content, filled=True)

    def of_candidate(self, contents: Sequence[np.ndarray], roles: Sequence[str]) -> list[Any]:
        """Return one tensor per parameter of a candidate, filled except for outputs; each output has its own tensor."""
        slots = [f"output {index}" if role in OUTPUTS else "" for index, role in enumerate(roles)]
        keys = [_key(content, slot) for content, slot in zip(contents, slots, strict=True)]
        self._needed, self._tried = set(keys), True
        return [
            self._tensor(key, content, filled=not slot)
            for key, content, slot in zip(keys, contents, slots, strict=True)
        ]

    def _tensor(self, key: bytes, content: np.ndarray, *, filled: bool) -> Any:
        if key in self._there:
            self._there.move_to_end(key)
            return self._there[key][0]
        self._make_room(content.size)
        tensor = self._allocate(content.size)
        if filled:
            self._fill(tensor, content)
        self._there[key] = (tensor, content.size)
        return tensor

    def _make_room(self, size: int) -> None:
        used = size + sum(taken for _, taken in self._there.values())
        for key in [key for key in self._there if key not in self._needed]:
            if used <= self._most_bytes:
                break
            used -= self._there.pop(key)[1]


def _key(content: np.ndarray, slot: str) -> bytes:
    return hashlib.sha256(content.data).digest() + slot.encode()


_CPU = 1
_SESSION_STRIDE = 128
_TEXT_BYTES = 1024
_READ_BYTES = 1 << 18
_MOST_SAMPLES = 4096
_LONGEST_NS = 1e15  # eleven days: no call took that long
_LEAST_NS = 1e-9
_DIFFERS = 10
_ENOUGH_CALLS = 1_000_000  # in one sample: long enough for the coarsest clock
MOST_TENSORS = 64  # per candidate; the shim's limit
SHIM_NAME = "edgetune_shim.so"


class RemoteError(Exception):
    """A call to the server failed, with the server's message. `unfit`: it cannot load libraries of its target."""

    def __init__(self, reason: str, *, unfit: bool = False) -> None:
        super().__init__(reason)
        self.unfit = unfit


class Runtime:
    """TVM's runtime library, found in the package `tvm` without importing that."""

    def __init__(self) -> None:
        import tvm_ffi
        from tvm_ffi import registry
        from tvm_ffi.libinfo import load_lib_ctypes

        folder = _package_folder("tvm") / "lib"
        self._library = load_lib_ctypes("tvm", "tvm_runtime", "RTLD_GLOBAL", extra_lib_paths=[folder])
        registry._SKIP_UNKNOWN_OBJECTS = True  # noqa: SLF001  as `tvm.base` does without the compiler
        self.ffi: Any = tvm_ffi

    def function(self, name: str) -> Any:
        """Return a global function of the runtime."""
        return self.ffi.get_global_func(name)


class RemoteSession:
    """One session with a server. Every method may block for as long as the server likes, and raises RemoteError."""

    def __init__(self, runtime: Runtime, host: str, port: int, key: str, session_s: int, shim: Path) -> None:
        self._runtime = runtime
        self._arrays = RemoteArrays(self._empty, self._fill)
        try:
            self._session = runtime.function("rpc.Connect")(host, port, f"{key} -timeout={session_s}", False)
            index = runtime.function("rpc.SessTableIndex")(self._session)
            self._device = runtime.ffi.device(_CPU + (index + 1) * _SESSION_STRIDE, 0)
            self._upload = self._session.get_function("tvm.rpc.server.upload")
            self._remove = self._session.get_function("tvm.rpc.server.remove")
            self._workpath = self._session.get_function("tvm.rpc.server.workpath")
            self._upload(SHIM_NAME, shim.read_bytes())
        except (RuntimeError, AttributeError, OSError) as error:
            raise RemoteError(_last_line(error)) from error
        try:
            module = runtime.function("rpc.LoadRemoteModule")(self._session, SHIM_NAME)
            self._shim = {
                name: module.get_function(f"edgetune_{name}")
                for name in ("open", "sample", "outputs", "end", "close", "read", "facts")
            }
        except (RuntimeError, AttributeError) as error:
            raise RemoteError(
                f"its server cannot load a library, so it is probably of another target: {_last_line(error)}",
                unfit=True,
            ) from error
        self._text = self._empty(_TEXT_BYTES)
        self._samples = self._empty(8 * _MOST_SAMPLES)
        self._page = self._empty(_READ_BYTES)

    def facts(self) -> Mapping[str, str]:
        """Return the facts of the board's system."""
        self._call("facts", self._text)
        return dict(line.split("=", 1) for line in self._words().splitlines() if "=" in line)

    def read(self, patterns: Sequence[str]) -> dict[str, bytes]:
        """Return the files that match `patterns`."""
        used = self._call("read", "\n".join(patterns), self._page)
        data, found = self._fetch(self._page, max(0, min(used, _READ_BYTES))).tobytes(), {}
        while data:
            try:
                name, digits, rest = data.split(b"\n", 2)
                length = max(0, int(digits))
            except ValueError as error:
                raise RemoteError("it returns invalid files") from error
            found[name.decode(errors="replace")] = rest[:length]
            data = rest[length:]
        return found

    def upload(self, library: Path) -> str:
        """Send a candidate to the board; return its path there."""
        name = f"{library.stem[:40]}-{hashlib.sha256(str(library).encode()).hexdigest()[:16]}.so"
        self._guard(self._upload, name, library.read_bytes())
        return str(self._guard(self._workpath, name))

    def remove(self, path: str) -> None:
        """Remove a candidate."""
        self._guard(self._remove, Path(path).name)

    def bring(self, content: np.ndarray) -> None:
        """Send an array's bytes that the next candidate needs, unless they are there."""
        self._arrays.bring(content)

    def tensors(self, contents: Sequence[np.ndarray], roles: Sequence[str]) -> list[Any]:
        """Return tensors on the board for a candidate's parameters, with outputs unfilled."""
        return self._arrays.of_candidate(contents, roles)

    def fetch(self, tensor: Any, count: int) -> np.ndarray:
        """Return the bytes of a tensor of the board."""
        return self._fetch(tensor, count)

    def open(
        self,
        path: str,
        tensors: Sequence[Any],
        roles: str,
        *,
        cores: Sequence[int],
        memory_bytes: int,
        scratch_bytes: int,
        timeout_s: float,
    ) -> tuple[int, str]:
        """Load a candidate, restrict it to `cores`, call it once; return the shim's code and, unless it is 0, why."""
        limits = (memory_bytes, int(timeout_s) + 2, scratch_bytes, _milliseconds(timeout_s))
        kept = ",".join(map(str, cores))
        code = self._call("open", path, kept, *limits, roles, self._text, *tensors)
        return code, self._words() if code else ""

    def take(self, repeat: int, count: int, timeout_s: float) -> list[float]:
        """Take samples, in nanoseconds, 0 where the board's clock is too coarse; raises CandidateEndedError."""
        values: list[float] = []
        while len(values) < count:
            some = min(count - len(values), _MOST_SAMPLES)
            code = self._call("sample", 0, repeat, some, _milliseconds(timeout_s), self._text, self._samples)
            if code:
                raise CandidateEndedError(code, self._words())
            values += self._times(some, least=0.0 if repeat < _ENOUGH_CALLS else _LEAST_NS)
        return values

    def watch(self, timeout_s: float) -> tuple[float, bool]:
        """Make one call over outputs that hold a pattern; return its nanoseconds, and whether it acts like the first.

        Raises CandidateEndedError.
        """
        code = self._call("sample", 1, 1, 1, _milliseconds(timeout_s), self._text, self._samples)
        if code not in {0, _DIFFERS}:
            raise CandidateEndedError(code, self._words())
        return self._times(1, least=0.0)[0], code == 0

    def outputs(self, tensors: Sequence[Any]) -> None:
        """Copy the outputs of the last call into `tensors`."""
        self._call("outputs", *tensors)

    def look_after_all(self, timeout_s: float) -> float:
        """Check what the candidate left behind; return the ns of a cycle of the core. Raises CandidateEndedError."""
        if code := self._call("end", _milliseconds(timeout_s), self._text, self._samples):
            raise CandidateEndedError(code, self._words())
        return self._times(1, least=0.0)[0]

    def close_candidate(self) -> int:
        """End the candidate."""
        return self._call("close")

    def _times(self, count: int, least: float) -> list[float]:
        taken = self._fetch(self._samples, 8 * count).view(np.float64)
        if not ((taken >= least) & (taken < _LONGEST_NS)).all():  # false for NaN
            raise RemoteError("it returns invalid times")
        return [float(value) for value in taken]

    def _call(self, name: str, *arguments: Any) -> int:
        code = int(self._guard(self._shim[name], *arguments))
        if code < 0:
            raise RemoteError(f"the shim refused edgetune_{name}")
        return code

    def _empty(self, count: int) -> Any:
        ffi = self._runtime.ffi
        allocate = self._runtime.function("runtime.TVMTensorAllocWithScope")
        return self._guard(allocate, ffi.Shape([max(count, 1)]), ffi.dtype("uint8"), self._device, None)

    def _fill(self, tensor: Any, content: np.ndarray) -> None:
        pointer = content.ctypes.data_as(ctypes.c_void_p)
        self._guard(self._runtime.function("runtime.TVMTensorCopyFromBytes"), tensor, pointer, content.size)

    def _fetch(self, tensor: Any, count: int) -> np.ndarray:
        whole = np.empty(tensor.shape[0], np.uint8)
        pointer = whole.ctypes.data_as(ctypes.c_void_p)
        self._guard(self._runtime.function("runtime.TVMTensorCopyToBytes"), tensor, pointer, whole.size)
        return whole[:count]

    def _words(self) -> str:
        text = self._fetch(self._text, _TEXT_BYTES).tobytes().split(b"\0")[0].decode(errors="replace")
        text = re.sub(r"killed by signal (\d+)", lambda found: describe_exit(-int(found[1])), text)
        return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)

    @staticmethod
    def _guard(function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (RuntimeError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise RemoteError(_last_line(error)) from error


class CandidateEndedError(Exception):
    """The candidate ended while it was timed, or went wrong: the shim's code, and its message."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:500]


def _package_folder(name: str) -> Path:
    for entry in sys.path:
        if (Path(entry) / name / "__init__.py").exists():
            return Path(entry) / name
    spec = importlib.util.find_spec(name)  # also works for editable installs, which use finders
    if spec is None or not spec.submodule_search_locations:
        raise RemoteError(f"the package {name} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))
