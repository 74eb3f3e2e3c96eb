"""A host with a GPU that runs bundles at once: this machine, or one behind SSH, with the runner of any bundle."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.boards.gpu_health import ERRORS, OTHERS, SAMPLES, WATCH, health_faults
from edgetune.boards.holder import Holder
from edgetune.boards.lock import LOCK_TIMEOUT_S, timing_lock
from edgetune.bundle.kinds.kind import BUNDLE, RoundHost
from edgetune.bundle.manifest import MOST_RESULT_BYTES, RESULTS, BundleManifest
from edgetune.bundle.running import check_files, error_of, run_bundle, runner_files, why_it_ended
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import BoardBusy, BoardUnavailable, ToolchainMissing, UsageError
from edgetune.events import Event
from edgetune.pipeline.backends import backend_of
from edgetune.resources import templates_dir
from edgetune.target.cuda_toolkit import has_gpu

if TYPE_CHECKING:
    from edgetune.boards.reach import CommandResult, Reach
    from edgetune.config.settings import Settings
    from edgetune.pipeline.compile_input import Events

_SLICE_S = 120
"""Seconds after which results are fetched: more than a candidate takes, so that each slice has at least one result."""

_OUT_OF_TIME, _TAKEN = 124, 75  # as hold.c ends
_RETRY_S = 5.0
_COPY_S, _SHELL_S = 300.0, 60.0
_NO_COMPILER = 127


class ThisMachine:
    """The GPU of this machine."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def run(self, bundle: Path) -> None:
        """See `RoundHost`."""
        with tempfile.TemporaryDirectory(prefix="edgetune-") as place:
            with timing_lock(self._events):
                watch = subprocess.Popen(["/bin/sh", "-c", f"{WATCH}\nread -r end"], stdin=subprocess.PIPE, cwd=place)
                try:
                    run_bundle(bundle)
                finally:
                    watch.communicate()
            files = [_text(Path(place) / name) for name in (SAMPLES, OTHERS, ERRORS)]
            _tell(self._events, "the GPU of this machine", *files)


class BehindSsh:
    """The GPU of a host behind SSH, which needs a C compiler and the CUDA driver."""

    def __init__(self, reach: Reach, events: Events, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self._reach, self._events, self._lock_timeout_s = reach, events, lock_timeout_s

    def run(self, bundle: Path) -> None:
        """See `RoundHost`. Results are fetched as they come, so that a lost link loses few of them."""
        manifest = check_files(bundle)
        self._reach.connect()
        try:
            self._run(bundle, manifest)
        finally:
            self._reach.close()

    def _run(self, bundle: Path, manifest: BundleManifest) -> None:
        with tempfile.TemporaryDirectory(prefix="edgetune-") as place:
            packed = Path(place) / "bundle.tar"
            packed.write_bytes(_packed(bundle, manifest))
            there = self._reach.put(packed, _COPY_S)
        folder = shlex.quote(f"{there}-files")
        compiling = (
            "c=$(command -v cc || command -v gcc) || exit 127; "
            f"$c -O2 {_RUNNER}/*.c -o runner -ldl -lm && $c -O2 hold.c lock.c -o hold"
        )
        made = self._reach.run(f"mkdir -p {folder} && cd {folder} && tar xf {there} && {compiling}", _COPY_S)
        if made.status:
            raise ToolchainMissing(
                f"{self._reach.name} has no C compiler for the runner of the bundle: install gcc there"
                if made.status == _NO_COMPILER
                else f"{self._reach.name} cannot compile the runner of the bundle: {made.stderr.strip()[:200]}"
            )
        while True:
            done = self._slice(folder)
            before = _whole_lines(bundle)
            self._fetch(folder, bundle)
            if done.status != _OUT_OF_TIME:
                break
            if _whole_lines(bundle) <= before:
                raise BoardUnavailable(f"{self._reach.name} times no candidate within {_SLICE_S} s: look at its GPU")
        files = [self._file(f"{folder}/{name}") for name in (SAMPLES, OTHERS, ERRORS)]
        if done.status:
            raise error_of(done.status)(f"{self._reach.name}: {why_it_ended(done.status, done.stderr)}")
        _tell(self._events, f"the GPU of {self._reach.name}", *files)

    def _slice(self, folder: str) -> CommandResult:
        """Run the runner under the host's lock, which ends it after `_SLICE_S`; it goes on where it ended."""
        until, told = time.monotonic() + self._lock_timeout_s, False
        while True:
            owner = shlex.quote(Holder.of_this_process().line)
            script = f"cd {folder} || exit 1\n{WATCH}\n./hold {owner} {_SLICE_S} ./runner {_FILES}"
            done = self._reach.run(script, _SLICE_S + _SHELL_S)
            if done.status != _TAKEN:
                return done
            holder = Holder.read(done.stderr.strip().rpartition("held: ")[2])
            left = until - time.monotonic()
            if left <= 0:
                raise BoardBusy(
                    f"board '{self._reach.name}' belongs to {holder.words}: wait until that run ends, or use another "
                    f"board{holder.remedy}"
                )
            if not told:
                told = True
                said = f"waiting for {holder.words}, which has the GPU of {self._reach.name}{holder.remedy}"
                self._events(Event("warning", {"message": said}))
            time.sleep(min(_RETRY_S, left))

    def _fetch(self, folder: str, bundle: Path) -> None:
        text = self._file(f"{folder}/{_FILES}/{RESULTS}")
        if text is not None:
            beside = bundle / f".{RESULTS}"
            beside.write_bytes(text.encode("ascii", "replace"))
            beside.replace(bundle / RESULTS)

    def _file(self, path: str) -> str | None:
        done = self._reach.run(f"test -f {path} && head -c {MOST_RESULT_BYTES} {path}", _COPY_S)
        return done.stdout if done.status == 0 else None


_FILES, _RUNNER = "files", "runner-files"
_HOLD = ("bundle/hold.c", "agent/lock.c", "agent/lock.h")


def check_via(settings: Settings, via: str | None) -> None:
    """Check a search `via` a bundle, an SSH address, or, where that is None, the board or this machine.

    Raises UsageError for a budget of time where rounds are carried, for a wrong address, for a transport that times no
    rounds, and for several boards; BoardUnavailable where this machine has no GPU and the board no address.
    """
    target = settings.target
    if settings.rpc not in {None, backend_of(target).transport}:
        raise UsageError(
            f"--rpc {settings.rpc} times no candidates of '{target.name}': leave it out, also in EDGETUNE_RPC and "
            "edgetune.yaml"
        )
    if via == BUNDLE and settings.budget_trials is None:
        raise UsageError("nobody here sees how long a bundle runs: give the candidates of all kernels with --trials")
    if via not in {BUNDLE, None}:
        _address(str(via))
    if via is None and len(settings.addresses) > 1:
        names = ", ".join(address.name for address in settings.addresses)
        raise UsageError(f"'{target.name}' has several boards: give one of {names}")
    if via is None and not settings.addresses and not _gpu_here():
        raise BoardUnavailable(
            "this machine has no NVIDIA GPU: candidates travel to one and back as a folder (`--via bundle`), or are "
            f"timed on a host behind SSH (`--via USER@HOST`, or `edgetune boards add NAME --target {target.name} --ssh "
            "USER@HOST`)"
        )


def gpu_host(settings: Settings, via: str | None, events: Events) -> RoundHost | None:
    """The host that runs rounds at once; None where they are carried. `check_via` finds no fault."""
    addresses = settings.addresses if via is None else () if via == BUNDLE else (_address(via),)
    if addresses:
        from edgetune.boards.ssh.reach import SshReach

        return BehindSsh(SshReach(addresses[0], None, on_event=events), events)
    return ThisMachine(events) if _gpu_here() else None


def _gpu_here() -> bool:
    """Whether this machine has a GPU, or an environment variable names a driver, and so a GPU."""
    return has_gpu() or "EDGETUNE_CUDA_DRIVER" in os.environ


def _address(text: str) -> BoardAddress:
    user, _, host = text.rpartition("@")
    name = "-".join(re.findall("[a-z0-9]+", host.lower()))
    try:
        return BoardAddress(name=name, target=name, ssh=text if user else "")
    except ValueError:
        raise UsageError(f"--via must be 'bundle' or USER@HOST, not '{text}': correct it") from None


def _packed(bundle: Path, manifest: BundleManifest) -> bytes:
    """A tar file of a bundle and the runner, with what results there are."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for path in runner_files(manifest):
            tar.add(path, f"{_RUNNER}/{path.name}")
        for source in _HOLD:
            tar.add(templates_dir() / source, Path(source).name)
        for path in sorted(path for path in bundle.rglob("*") if path.is_file() and not path.is_symlink()):
            tar.add(path, f"{_FILES}/{path.relative_to(bundle)}")
    return held.getvalue()


def _whole_lines(bundle: Path) -> int:
    return (_text(bundle / RESULTS) or "").count("\n")


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def _tell(events: Events, which: str, samples: str | None, others: str | None, errors: str | None) -> None:
    for fault in health_faults(samples, others, errors):
        events(Event("warning", {"message": f"{which} {fault}"}))
