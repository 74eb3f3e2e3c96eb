"""Worker process for TVM's RPC calls: these have no deadline, so the board's process must not make them itself.

It is killed when it is late, and ends by itself when the process that started it ends.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time

from edgetune.boards.tvm_rpc.messages import (
    Bring,
    Brought,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Files,
    Read,
    SessionFailed,
    Try,
    WorkerStep,
)
from edgetune.boards.tvm_rpc.remote import RemoteError, RemoteSession, Runtime
from edgetune.boards.tvm_rpc.trial import bytes_of, load_array, try_candidate
from edgetune.ipc import frames
from edgetune.ipc.child_process import claim_pipes

_WATCH_S = 0.5
_RANGE = r"\d{1,4}-\d{1,4}"
_RANGES = re.compile(rf"{_RANGE}(,{_RANGE})*", re.ASCII)


class Worker:
    """Takes one message at a time and answers each."""

    def __init__(self, outgoing: int) -> None:
        self._outgoing = outgoing
        self._runtime: Runtime | None = None
        self._session: RemoteSession | None = None
        self._cores: tuple[int, ...] = ()
        self._step = "start"

    def answer(self, message: object) -> object:
        """Do what the message requests; a failure is also an answer."""
        try:
            return self._do(message)
        except RemoteError as error:
            self._session = None
            return SessionFailed(self._step, str(error), error.unfit)

    def _do(self, message: object) -> object:
        if isinstance(message, Disconnect):
            self._session = None
            return Disconnected()
        if isinstance(message, Connect):
            self._note("connect")
            self._session = None
            self._runtime = self._runtime or Runtime()
            self._session = RemoteSession(
                self._runtime, message.host, message.port, message.key, message.session_s, message.shim
            )
            facts = dict(self._session.facts())
            self._cores = chosen_cores(message.cores, facts.pop("allowed", ""))
            return Connected(facts, self._cores)
        if self._session is None:
            return SessionFailed(self._step, "there is no session")
        if isinstance(message, Read):
            self._note("read")
            return Files(self._session.read(message.patterns))
        if isinstance(message, Bring):
            self._note("put")
            self._session.bring(bytes_of(load_array(message.path)))
            return Brought()
        if isinstance(message, Try):
            return try_candidate(self._session, message.request, self._cores, self._note)
        raise TypeError(f"not a message for the worker: {message!r}")

    def _note(self, step: str) -> None:
        self._step = step
        frames.send(self._outgoing, WorkerStep(step))


def chosen_cores(asked: tuple[int, ...], allowed: str) -> tuple[int, ...]:
    """Return the cores of candidates: those `asked` for, or the last one of `allowed`, such as "0-1,3-3".

    Raises RemoteError; it is `unfit` when the server may not use a requested core.
    """
    if _RANGES.fullmatch(allowed) is None:
        raise RemoteError("it does not report which cores it may use")
    ends = [tuple(map(int, part.split("-"))) for part in allowed.split(",")]
    cores = {core for first, last in ends for core in range(first, last + 1)}
    if not cores:
        raise RemoteError("it may not use any core")
    if missing := sorted(set(asked) - cores):
        listed = allowed.replace(",", ", ")
        raise RemoteError(f"it may not use core {missing[0]}, only {listed}: change `cores` in boards.yaml", unfit=True)
    return asked or (max(cores),)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, even while a call to the server blocks."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)


def main() -> None:
    """Run the process: the first argument is the id of its parent."""
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    incoming, outgoing = claim_pipes()
    worker = Worker(outgoing)
    while True:
        try:
            message = frames.receive(incoming)
        except EOFError:
            os._exit(0)  # without waiting for the server to end the session
        frames.send(outgoing, worker.answer(message))
