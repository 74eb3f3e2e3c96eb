"""Recipe of an emulated board's machine: reads `deploy/<target>/recipe.yaml` and the files under `root/` beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictStr

from edgetune.errors import BoardUnavailable
from edgetune.resources import deploy_dir
from edgetune.target.target import Target
from edgetune.yaml_reader.checked import Checked, check_document
from edgetune.yaml_reader.source import load_yaml

_FORMAT = 2  # version of the archive that archive.py writes; a new version makes a new image
_Path = Annotated[StrictStr, Field(pattern=r"^[^/]")]


class Recipe(Checked):
    """Packages, files and emulator arguments of one emulated board."""

    suite: StrictStr = Field(description="Debian release, used where this system is not Debian itself.")
    architecture: StrictStr = Field(description="Debian's name of the board's architecture.")
    kernel: StrictStr = Field(description="Package that depends on the newest kernel of its kind.")
    modules: tuple[StrictStr, ...] = Field(description="Kernel modules to load at the start.")
    packages: tuple[StrictStr, ...] = Field(description="Debian packages; what they depend on comes with them.")
    without_packages: tuple[StrictStr, ...] = Field(default=(), description="Dependencies to leave out.")
    without_files: tuple[_Path, ...] = Field(default=(), description="Patterns of paths to leave out.")
    links: dict[_Path, StrictStr] = Field(default={}, description="Symbolic links to add.")
    user: StrictStr = Field(description="User whose SSH login is used.")
    machine: tuple[StrictStr, ...] = Field(description="Arguments of qemu-system-aarch64.")
    kernel_arguments: StrictStr = Field(description="Command line of the kernel.")


def recipe_folder(target: Target) -> Path:
    """Return the folder of the target's recipe; raises BoardUnavailable when it has none."""
    folder = deploy_dir() / target.name
    if not (folder / "recipe.yaml").is_file():
        raise BoardUnavailable(f"board '{target.name}' is not an emulated machine: there is no image to set up for it")
    return folder


def load_recipe(folder: Path) -> Recipe:
    """Read `recipe.yaml` in `folder`; raises ConfigError with file and line."""
    return check_document(Recipe, load_yaml(folder / "recipe.yaml"))


def recipe_files(folder: Path) -> dict[str, bytes]:
    """Return the files under `root/`, by their path in the image, without the leading slash."""
    root = folder / "root"
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def recipe_digest(recipe: Recipe, files: dict[str, bytes]) -> str:
    """Return 16 hex digits over everything in the image that does not come from packages.

    The arguments of emulator and kernel are not in the image, so a change of them needs no new image.
    """
    digest = hashlib.sha256(f"{_FORMAT}\n".encode())
    digest.update(recipe.model_dump_json(exclude={"machine", "kernel_arguments"}).encode())
    for path, content in sorted(files.items()):
        digest.update(f"\n{path}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
