"""CUDA's compiler: nvcc on PATH, or else that of the wheels which the extra `cuda` installs."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

WHEELS = "pip install 'edgetune[cuda]'"


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
    """Return whether this machine has an NVIDIA GPU, as its driver shows it; a package's Makefile asks the same."""
    return any(Path(device).exists() for device in ("/dev/nvidia0", "/dev/nvhost-gpu", "/dev/nvgpu"))
