"""CUDA's compiler: nvcc on PATH, or else that of the wheels which the extra `cuda` installs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from functools import lru_cache
from pathlib import Path

from edgetune.errors import ToolchainMissing
from edgetune.target.gpu import GpuTarget
from edgetune.target.tool_process import run_tool

WHEELS = "pip install 'edgetune[cuda]'"
_DIGITS = 16
_PATIENCE_S = 60


def find_nvcc(name: str = "nvcc") -> Path | None:
    """Return the path of nvcc: `name` on PATH; where it is "nvcc", else that of this interpreter's site-packages.

    None where it is not.
    """
    if (found := shutil.which(name)) is not None:
        return Path(found)
    if name != "nvcc":
        return None
    roots = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    folders = sorted((folder for root in roots for folder in Path(root).glob("nvidia/cu*/bin")), reverse=True)
    return next((folder / "nvcc" for folder in folders if (folder / "nvcc").is_file()), None)


def has_gpu() -> bool:
    """Return whether this machine has an NVIDIA GPU, as its driver shows it.

    One that is hidden from CUDA is not there: CUDA_VISIBLE_DEVICES counts up to its first entry that is neither a
    number nor a name (CUDA C++ Programming Guide). A package's Makefile looks at the driver's files alone.
    """
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if not (first.isdigit() or first.startswith(("GPU-", "MIG-"))):
        return False
    return any(Path(device).exists() for device in ("/dev/nvidia0", "/dev/nvhost-gpu", "/dev/nvgpu"))


def require_nvcc(target: GpuTarget) -> Path:
    """Return the nvcc of a target. Raises ToolchainMissing where it is not, or does not know the target any more."""
    name = target.compiler.nvcc
    nvcc = find_nvcc(name)
    if nvcc is None:
        remedy = (
            f"{WHEELS} installs it, or put the bin folder of a CUDA toolkit (/usr/local/cuda/bin) on PATH"
            if name == "nvcc"
            else "correct 'compiler.nvcc'"
        )
        raise ToolchainMissing(f"the compiler '{name}' of board '{target.name}' is not installed: {remedy}")
    known = _answer(nvcc, "--list-gpu-code").split()
    if target.arch not in known:
        raise ToolchainMissing(
            f"{nvcc} compiles no code for {target.arch}, which board '{target.name}' needs: use another CUDA "
            f"(this one knows {known[0] if known else 'nothing'} to {known[-1] if known else 'nothing'})"
        )
    return nvcc


def nvcc_id(target: GpuTarget) -> str:
    """The version of nvcc and a digest of its flags, such as `nvcc-13.0.48-3f9a0c1e5b7d2468`; see `require_nvcc`."""
    return f"nvcc-{nvcc_version(require_nvcc(target))}-{_digest([target.compiler.nvccflags])}"


def nvcc_version(nvcc: Path) -> str:
    """The version of an nvcc, such as 13.0.88; "unknown" where it does not tell. Raises ToolchainMissing."""
    found = re.search(r"V([0-9.]+)", _answer(nvcc, "--version"))
    return found[1] if found else "unknown"


def gpu_fingerprint(target: GpuTarget) -> str:
    """16 hex digits over what schedules and the printer read of a GPU: equal digits mean comparable times."""
    facts: list[object] = [target.caches] if target.caches == "cold" else []
    return _digest(
        [
            *facts,
            target.arch,
            target.multiprocessors,
            target.threads_per_multiprocessor,
            target.registers_per_multiprocessor,
            target.shared_bytes_per_block,
            target.most_shared_bytes,
            target.shared_bytes_per_multiprocessor,
        ]
    )


@lru_cache(maxsize=8)
def _answer(nvcc: Path, question: str) -> str:
    try:
        return run_tool([str(nvcc), question], timeout_s=_PATIENCE_S, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainMissing(f"{nvcc} does not answer {question} ({error}): install CUDA again") from None


def _digest(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, default=list, sort_keys=True).encode()).hexdigest()[:_DIGITS]
