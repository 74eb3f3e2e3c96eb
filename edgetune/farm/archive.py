"""Archive of packages: C text, benchmark program and library as one tar file each, named by the hash of its content.

The same package gives the same bytes: members are sorted, without times and owners. A tar file is written beside its
place and renamed. What comes out of the archive is checked against its name.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from edgetune.errors import DiskFull, NightFault

PACKAGE = "package"
BUILT = "built"
_MODELS = "models"


def keep(archive: Path, folder: Path) -> str:
    """Store `package` and `built` of `folder` and return the digest (hex SHA-256 of the tar file).

    Raises DiskFull, and NightFault where the archive cannot be written.
    """
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(p for part in (PACKAGE, BUILT) for p in (folder / part).rglob("*") if p.is_file()):
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            member.size = path.stat().st_size
            member.mode = 0o755 if path.parent.name == BUILT else 0o644
            with path.open("rb") as content:
                tar.addfile(member, content)
    text = data.getvalue()
    digest = hashlib.sha256(text).hexdigest()
    place = _place(archive, digest)
    try:
        known = _intact(place, digest)
    except OSError as error:
        raise NightFault(f"the archive {archive} cannot be read ({error.strerror}): correct its permissions") from error
    if not known:
        _write(archive, place, text)
    return digest


def restore(archive: Path, digest: str, folder: Path) -> str:
    """Unpack a package into `folder`; return "" or, where it is lost or damaged, the reason.

    Raises NightFault where the archive cannot be read: then nobody knows what is lost. Raises DiskFull and NightFault
    where `folder` cannot be written.
    """
    place = _place(archive, digest)
    try:
        if not archive.is_dir():
            raise NightFault(f"the archive {archive} is not there: mount it, or correct 'archive' in the farm file")
        if not place.is_file():
            return f"the accepted package {digest[:12]} is not in the archive any more"
        if not _intact(place, digest):
            return f"the accepted package {digest[:12]} in the archive is damaged"
    except OSError as error:
        raise NightFault(f"the archive {archive} cannot be read ({error.strerror}): correct its permissions") from error
    with tarfile.open(place) as tar:
        members = tar.getmembers()
        # Not extractall's filter: the Python 3.11 of Debian 12 has none.
        if not all(member.isreg() and _is_inside(member.name) for member in members):
            return f"the accepted package {digest[:12]} in the archive holds more than files of its own folder"
        for member in members:
            content = tar.extractfile(member)
            if content is not None:
                _restore_file(folder / member.name, content.read(), (member.mode & 0o755) | 0o600)
    return ""


def has(archive: Path, digest: str) -> bool:
    """Whether a package is in the archive, undamaged. Raises NightFault where the archive cannot be read."""
    try:
        return _intact(_place(archive, digest), digest)
    except OSError as error:
        raise NightFault(f"the archive {archive} cannot be read ({error.strerror}): correct its permissions") from error


def _restore_file(place: Path, content: bytes, mode: int) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(mode)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space is left in {place.parent}: free some and run again") from error
        raise NightFault(
            f"the accepted package cannot be restored ({place}: {error.strerror}): correct the folder's permissions"
        ) from error


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.name) and not path.is_absolute() and ".." not in path.parts


def keep_model(archive: Path, model: Path, digest: str) -> None:
    """Store a model file, from which an accepted package was made, by its hash.

    A model of several files is not kept: its hash is not that of one. Raises DiskFull and NightFault as `keep` does.
    """
    place = archive / _MODELS / f"{digest}{model.suffix}"
    if not model.is_file() or not _intact(model, digest) or _intact(place, digest):
        return
    _write(archive, place, model.read_bytes())


def find_model(archive: Path, digest: str, suffix: str) -> Path | None:
    """The model file of that hash; None where it is lost or damaged. Raises NightFault where it cannot be read."""
    place = archive / _MODELS / f"{digest}{suffix}"
    try:
        return place if _intact(place, digest) else None
    except OSError as error:
        raise NightFault(f"the archive {archive} cannot be read ({error.strerror}): correct its permissions") from error


def _write(archive: Path, place: Path, content: bytes) -> None:
    """Write a file beside its place, then rename it."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".new-", delete=False) as beside:
            try:
                beside.write(content)
                beside.flush()
                os.fsync(beside.fileno())
                os.fchmod(beside.fileno(), 0o644)
                Path(beside.name).replace(place)
            except BaseException:
                Path(beside.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space is left for the archive {archive}: free some and run again") from error
        raise NightFault(
            f"the archive {archive} cannot be written ({error.strerror}): give another as 'archive' in the farm file"
        ) from error


def _place(archive: Path, digest: str) -> Path:
    return archive / digest[:2] / f"{digest}.tar"


def _intact(place: Path, digest: str) -> bool:
    try:
        with place.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except FileNotFoundError:
        return False
