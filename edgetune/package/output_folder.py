"""Atomic output folder: written beside its place and renamed into it, so that there is never a partial package."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgetune.errors import DiskFull, EdgetuneError, OutputRefused
from edgetune.package.manifest import MANIFEST, is_package, listed_files

_BUILT = ("build", "lib")  # what `make` in a package leaves there
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def check_output_folder(out_dir: Path) -> None:
    """Raise OutputRefused unless a package may be written to `out_dir`: absent, empty, or an earlier package.

    The check is cheap, so that a long run can make it before it starts.
    """
    out_dir = Path(os.path.abspath(out_dir))  # noqa: PTH100 (resolve() would follow a link that is to be replaced)
    if out_dir.is_symlink() and not out_dir.exists():
        raise OutputRefused(f"{out_dir} is a link to nothing: remove it or choose another folder with -o")
    if out_dir.exists():
        if not out_dir.is_dir():
            raise OutputRefused(f"{out_dir} is a file: choose another folder with -o")
        _require_writable(out_dir)
        if any(out_dir.iterdir()) and not is_package(out_dir):
            raise OutputRefused(
                f"{out_dir} exists and is not a package of edgetune (it has no {MANIFEST} of edgetune): "
                "choose another folder with -o"
            )
        _require_nothing_foreign(out_dir)
    parent = out_dir.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise OutputRefused(f"{parent} is a file, so {out_dir} cannot be made: choose another folder with -o")
    _require_writable(parent)


def _require_nothing_foreign(out_dir: Path) -> None:
    """Raise OutputRefused when replacing the package in `out_dir` would lose something that edgetune did not write."""
    if not is_package(out_dir):
        return
    listed = listed_files(out_dir)
    if listed is None:
        raise OutputRefused(
            f"{out_dir / MANIFEST} has no table of files, so edgetune cannot tell its own files from yours: remove "
            "the folder or choose another with -o"
        )
    ours = {MANIFEST, *_BUILT, *(name.partition("/")[0] for name in listed)}
    foreign = sorted(entry.name for entry in out_dir.iterdir() if entry.name not in ours)
    if foreign:
        raise OutputRefused(
            f"{out_dir} holds {foreign[0]!r}, which does not belong to the package there and would be lost: "
            "move it away or choose another folder with -o"
        )


def _require_writable(folder: Path) -> None:
    # Root may write anywhere, but a folder that denies writing to everyone does so on purpose.
    if not os.access(folder, os.W_OK | os.X_OK) or not stat.S_IMODE(folder.stat().st_mode) & 0o222:
        raise OutputRefused(f"{folder} cannot be written to: make it writable or choose another folder with -o")


@contextmanager
def staged(out_dir: Path) -> Iterator[Path]:
    """Give a new folder beside `out_dir`, and move it to the place of `out_dir` when the block succeeds.

    Otherwise the new folder is removed and `out_dir` is untouched. Raises OutputRefused and DiskFull.
    """
    check_output_folder(out_dir)
    out_dir = out_dir.resolve()
    stage: Path | None = None
    made = [parent for parent in out_dir.parents if not parent.exists()]
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}.new-", dir=out_dir.parent))
        umask = os.umask(0)
        os.umask(umask)
        stage.chmod(0o777 & ~umask)
        yield stage
        _replace(out_dir, stage)
    except OSError as error:
        raise _translated(error, out_dir) from error
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)
        if not out_dir.exists():
            for parent in made:
                with suppress(OSError):  # not empty: another process uses it by now
                    parent.rmdir()


def _replace(out_dir: Path, stage: Path) -> None:
    if not out_dir.exists():
        stage.rename(out_dir)
    elif not _exchange(stage, out_dir):
        # The file system cannot swap: for an instant there is no package, but never a partial one.
        graveyard = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}.old-", dir=out_dir.parent))
        before = graveyard / "package"
        out_dir.rename(before)
        try:
            stage.rename(out_dir)
        except OSError:
            before.rename(out_dir)
            raise
        finally:
            shutil.rmtree(graveyard, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step (Linux renameat2); False where the system or the file system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    here, exchange = -100, 2
    if rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
        return False
    raise OSError(code, os.strerror(code))


def _translated(error: OSError, out_dir: Path) -> EdgetuneError:
    if error.errno in _FULL:
        return DiskFull(
            f"no space is left to write {out_dir} ({error.strerror}): free some or choose another place with -o"
        )
    return OutputRefused(f"cannot write {out_dir}: {error.strerror or error}; choose another folder with -o")
