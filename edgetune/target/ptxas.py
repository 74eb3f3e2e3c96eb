"""Compilation of CUDA text to a cubin, and what ptxas says of each kernel: registers, shared and local memory."""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from edgetune.errors import ToolchainMissing, ToolHung
from edgetune.target.gpu import GpuTarget
from edgetune.target.tool_process import run_tool

_NVCC_S = 600
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_LOCAL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_MANGLED = re.compile(r"_Z(\d+)(\w+)")


@dataclass(frozen=True)
class KernelUsage:
    """What one kernel uses on one architecture: registers of a thread; bytes of a block's static shared memory.

    `local_bytes` are those of a thread's frame in local memory, which lies in device memory; `spill_bytes` are stores
    and loads there of registers that did not suffice.
    """

    name: str
    registers: int
    shared_bytes: int
    local_bytes: int
    spill_bytes: int

    @property
    def slow_bytes(self) -> int:
        """Bytes that a thread keeps in device memory, because it has no registers for them; 0 as it should be."""
        return max(self.local_bytes, self.spill_bytes)

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Cubin:
    """Machine code of one architecture, and what its kernels use, in the order of ptxas."""

    data: bytes
    kernels: tuple[KernelUsage, ...]

    @property
    def slow_bytes(self) -> int:
        """The same of its kernels, added."""
        return sum(kernel.slow_bytes for kernel in self.kernels)


def compile_text(text: str, target: GpuTarget, nvcc: Path) -> Cubin | str:
    """Compile a CUDA text that needs no other file, as a package is; the complaint of nvcc where it refuses the text.

    Raises ToolchainMissing where nvcc does not run.
    """
    with tempfile.TemporaryDirectory(prefix="edgetune-") as folder:
        (Path(folder) / "kernel.cu").write_text(text, encoding="utf-8")
        words = [f"-arch={target.arch}", *target.compiler.nvccflags, "kernel.cu"]
        cubin = Path(folder) / "kernel.cubin"
        try:
            found = compile_cubin(nvcc, words, Path(folder), cubin)
        except ToolHung:
            return f"nvcc needs more than {_NVCC_S} s"
        except (OSError, subprocess.SubprocessError) as error:
            raise ToolchainMissing(f"{nvcc} does not run ({error}): install CUDA again") from None
        if isinstance(found, Cubin):
            return found
        faults = (line.strip() for line in found.splitlines() if "error" in line or "fatal" in line)
        return next(faults, f"nvcc says: {found.strip() or 'nothing'}")[:300]


def compile_cubin(nvcc: Path, words: Sequence[str], folder: Path, cubin: Path) -> Cubin | str:
    """Run nvcc with the `words` of a compilation in `folder`; all that it said where it fails.

    Raises OSError and subprocess.SubprocessError where it does not run, and ToolHung.
    """
    command = [str(nvcc), "-cubin", *words, "-Xptxas", "-v", "-o", str(cubin)]
    done = run_tool(command, timeout_s=_NVCC_S, folder=folder)
    said = done.stdout + done.stderr
    if done.returncode:
        return said or f"nvcc ends with status {done.returncode}"
    return Cubin(cubin.read_bytes(), usage_of(said))


def usage_of(said: str) -> tuple[KernelUsage, ...]:
    """What `ptxas -v` says of each kernel; names of C++ lose their mangling."""
    found = []
    for part in re.split(r"(?=Compiling entry function)", said)[1:]:
        name, local, used, shared = (of.search(part) for of in (_ENTRY, _LOCAL, _USED, _SHARED))
        frame, stores, loads = (int(count) for count in local.groups()) if local else (0, 0, 0)
        registers, nbytes = (int(of[1]) if of else 0 for of in (used, shared))
        found.append(KernelUsage(_plain(name[1] if name else ""), registers, nbytes, frame, stores + loads))
    return tuple(found)


def code_bytes(cubin: bytes) -> int:
    """Bytes of all sections of a cubin that hold machine code or constants (ELF-64: System V ABI, chapter 4)."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count = struct.unpack_from("<HH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + size * number) for number in range(count)]
    return sum(nbytes for _, kind, flags, _, _, nbytes in sections if kind == _PROGBITS and flags & _IN_MEMORY)


_PROGBITS, _IN_MEMORY = 1, 2


def _plain(name: str) -> str:
    mangled = _MANGLED.match(name)
    return mangled[2][: int(mangled[1])] if mangled else name
