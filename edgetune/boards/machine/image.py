"""Image builder for emulated boards: Debian packages become images in the user's cache, once per recipe and versions.

It also makes the user's two SSH keys for emulated boards, one for the host and one for the login, once; the cache keeps
them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edgetune.boards.machine.archive import FileSystem
from edgetune.boards.machine.packages import PackageSource, SystemPackage
from edgetune.boards.machine.recipe import Recipe, load_recipe, recipe_digest, recipe_files, recipe_folder
from edgetune.errors import BoardUnavailable, DiskFull, OutputRefused
from edgetune.events import Event
from edgetune.resources import cache_dir
from edgetune.target.target import Target


@dataclass(frozen=True)
class MachineKeys:
    """Files of the two private keys (mode 0600, OpenSSH's format), and the public keys, one line each."""

    host: Path
    client: Path
    host_public: str
    client_public: str


def machine_keys(folder: Path) -> MachineKeys:
    """Return the keys in `folder`, making missing ones; concurrent calls must not make keys (see `_locked`)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    host, client = folder / "host_key", folder / "client_key"
    return MachineKeys(host, client, _public(host), _public(client))


def _public(path: Path) -> str:
    if not path.exists():
        _make_key(path)
    key = serialization.load_ssh_private_key(path.read_bytes(), password=None)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return public.decode()


def _make_key(path: Path) -> None:
    content = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)


OnEvent = Callable[[Event], None]
_NEEDED_BYTES = 600 << 20  # packages, lists, the image being written and the one before it
_MB = 1_000_000


@dataclass(frozen=True)
class Image:
    """Files to start a machine from. They never change after they were made."""

    folder: Path
    recipe: Recipe
    client_key: Path
    host_public: str

    @property
    def kernel(self) -> Path:
        """File of the kernel."""
        return self.folder / "kernel"

    @property
    def file_system(self) -> Path:
        """File of the archive that the kernel unpacks into its memory."""
        return self.folder / "filesystem.cpio"


def setup(target: Target, on_event: OnEvent = lambda _: None, cache: Path | None = None) -> Image:
    """Return the image of `target`; makes it when there is none for its recipe, else leaves it unchanged.

    `cache` is the folder for images (default: `machines` in the user's cache). Needs no privileges; takes about half a
    minute and 300 MB. An interrupted call leaves no partial image; the next call uses what was downloaded.
    Raises ToolchainMissing (no apt), BoardUnavailable (not an emulated machine, no mirror), DiskFull, OutputRefused.
    """
    source = recipe_folder(target)
    recipe, files = load_recipe(source), recipe_files(source)
    folder = _folder(target, cache)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(folder, on_event):
            keys = machine_keys(folder / "keys")
            image = _find(folder, recipe, files, keys)
            if image is not None:
                return image
            return _make(folder, recipe, files, keys, on_event)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFull(f"no space for the image in {folder}: free some, or set XDG_CACHE_HOME") from None
        if isinstance(error, PermissionError | NotADirectoryError | FileExistsError) or error.errno == errno.EROFS:
            raise OutputRefused(f"{folder} cannot be written ({error.strerror}): set XDG_CACHE_HOME") from None
        raise


def find_image(target: Target, cache: Path | None = None) -> Image:
    """Return the image for the current recipe of the target; raises BoardUnavailable when there is none."""
    source = recipe_folder(target)
    recipe, files = load_recipe(source), recipe_files(source)
    folder = _folder(target, cache)
    image = None
    if (folder / "keys" / "host_key").is_file():
        image = _find(folder, recipe, files, machine_keys(folder / "keys"))
    if image is None:
        raise BoardUnavailable(
            f"board '{target.name}' has no image yet: `edgetune boards setup {target.name}` makes it"
        )
    return image


def _folder(target: Target, cache: Path | None) -> Path:
    return (cache if cache is not None else cache_dir() / "machines") / target.name


@contextlib.contextmanager
def _locked(folder: Path, on_event: OnEvent) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_event(Event("phase", {"name": "waiting for another setup of this board"}))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(recipe: Recipe, files: dict[str, bytes], keys: MachineKeys) -> str:
    text = f"{recipe_digest(recipe, files)} {keys.host_public} {keys.client_public}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _find(folder: Path, recipe: Recipe, files: dict[str, bytes], keys: MachineKeys) -> Image | None:
    """Return the newest image whose stamp, which is written last, names this recipe and these keys."""
    digest = _digest(recipe, files, keys)
    for path in sorted(folder.glob("image-*/stamp.json"), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            stamp = json.loads(path.read_bytes())
        except ValueError:
            continue
        if isinstance(stamp, dict) and stamp.get("recipe") == digest:
            return Image(path.parent, recipe, keys.client, keys.host_public)
    return None


def _make(folder: Path, recipe: Recipe, files: dict[str, bytes], keys: MachineKeys, on_event: OnEvent) -> Image:
    free = shutil.disk_usage(folder).free
    if free < _NEEDED_BYTES:
        raise DiskFull(
            f"{folder} has {free // _MB} MB free, an image needs {_NEEDED_BYTES // _MB}: "
            "free some, or set XDG_CACHE_HOME"
        )
    source = PackageSource(recipe, folder)
    with _phase("looking up package versions", on_event):
        packages = source.resolve()
    digest = _digest(recipe, files, keys)
    versions = "".join(f"{package.file} {package.checksum}\n" for package in packages)
    key = hashlib.sha256(f"{digest}\n{versions}".encode()).hexdigest()[:16]
    made = folder / f"image-{key}"
    if not (made / "stamp.json").is_file():
        missing = source.missing_bytes(packages)
        with _phase(f"downloading {missing / _MB:.0f} MB of packages", on_event):
            paths = source.fetch(packages)
        with _phase("writing the image", on_event):
            _write(folder, made, recipe, files, keys, paths, _stamp(digest, packages))
    for other in folder.glob("image-*"):
        if other != made:
            shutil.rmtree(other, ignore_errors=True)
    return Image(made, recipe, keys.client, keys.host_public)


def _write(
    folder: Path,
    made: Path,
    recipe: Recipe,
    files: dict[str, bytes],
    keys: MachineKeys,
    packages: list[Path],
    stamp: str,
) -> None:
    for left in folder.glob(".image-*"):  # we hold the lock, so these are from interrupted calls
        shutil.rmtree(left)
    beside = folder / f".{made.name}"
    beside.mkdir(mode=0o700)
    system = FileSystem(recipe)
    kernel, *others = packages
    for package in others:
        system.add_package(package)
    for path, leads_to in recipe.links.items():
        system.add_link(path, leads_to)
    for path, content in files.items():
        system.add_file(path, content, secret=path == "etc/shadow")
    system.add_file("etc/ssh/host_key", keys.host.read_bytes(), secret=True)
    system.add_file("etc/ssh/authorized_keys", f"{keys.client_public}\n".encode())
    (beside / "kernel").write_bytes(system.add_kernel(kernel))
    with (beside / "filesystem.cpio").open("wb") as file:
        system.write(file)
    for name in ("kernel", "filesystem.cpio"):
        _to_disk(beside / name)
    (beside / "stamp.json").write_text(stamp, encoding="utf-8")
    _to_disk(beside / "stamp.json")
    if made.exists():  # without a stamp, so it is not in use
        shutil.rmtree(made)
    beside.rename(made)


def _stamp(digest: str, packages: list[SystemPackage]) -> str:
    versions = {package.name: package.version for package in packages}
    return json.dumps({"recipe": digest, "packages": versions}, indent=1) + "\n"


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def _phase(name: str, on_event: OnEvent) -> Iterator[None]:
    started = time.monotonic()
    on_event(Event("phase", {"name": name}))
    yield
    on_event(Event("phase", {"name": name, "seconds": round(time.monotonic() - started, 3)}))
