"""Board with an agent: implements `Board` for a measuring session, over any reach."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edgetune.boards.agent import messages, recovery
from edgetune.boards.agent.build import build_agent
from edgetune.boards.agent.contents import Contents
from edgetune.boards.agent.frames import FrameType, encode
from edgetune.boards.agent.link import AgentLink
from edgetune.boards.agent.messages import Health, Hello, Message, Pong, Refused, Result, Stored
from edgetune.boards.agent.recovery import RecoveryLevel
from edgetune.boards.agent.starting import AgentStart, check_hello, fallbacks, told_facts
from edgetune.boards.agent.trial import Trial, run_result
from edgetune.boards.closing import Closing
from edgetune.boards.environment import Reading
from edgetune.boards.lock import LOCK_TIMEOUT_S
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.boards.reach import BoardFacts, Reach
from edgetune.boards.round_trip import ANSWER, LOGIN, STEPS, allowed_s
from edgetune.errors import BoardLost, BoardUnavailable, ProtocolViolation
from edgetune.events import Event
from edgetune.ipc.wakeup_descriptor import WakeupDescriptor
from edgetune.target.target import Target

IDLE_S = 120.0  # an agent that receives nothing for this time ends by itself
_PATIENCE_S = 5.0  # after the request's own deadline, which the agent enforces
_ANSWER_S = 10.0
_RECOVER_LOCK_S = 10.0  # for the lost agent to release the lock; another user may have taken the board meanwhile
_SLOWEST_BYTES_S = 100e3
_MOST_CACHE_BYTES = 1 << 30
_MOST_EARLY = 64  # stored answers about a candidate while waiting for another answer; a correct agent sends one


class AgentBoard:
    """Tries candidates through an agent on the board that `reach` reaches.

    Candidates run on `cores` (empty: the highest core that the agent may use, or any where instructions are counted).
    The board's advisory lock is held until the board is closed. `cache` keeps the compiled agent. After `reserve`,
    `facts` has what board and agent reported.
    """

    def __init__(
        self,
        target: Target,
        reach: Reach,
        *,
        cores: Sequence[int] = (),
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        cache: Path | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self.name, self._target, self.reach = reach.name, target, reach
        self._asked_cores = self._cores = tuple(cores)
        self._cold_bytes = target.cold_bytes
        self._idle_s = IDLE_S
        self._lock_timeout_s = lock_timeout_s
        self._cache = cache
        self._on_event = on_event
        self._described: BoardFacts | None = None
        self.facts: dict[str, Reading] = {"emulated": int(target.emulated), "clock": target.clock}
        self._contents = Contents()
        self._cache_bytes = self._room = _MOST_CACHE_BYTES
        self._link: AgentLink | None = None
        self._trial: Trial | None = None
        self._ready: RunResult | None = None  # of a candidate that no agent can run, so it was not sent
        self._number = 0
        self._refusal = ""
        self._early: list[Message] = []
        self._closing = Closing(self.name, self._leave)
        self._starting: AgentStart | None = None
        self._leaving = threading.Lock()
        self._bell = WakeupDescriptor()  # readable while there is no agent to wait for
        self._bell.ring()

    @property
    def round_trip_s(self) -> float:
        """Latest round-trip time to the board in seconds."""
        return self.reach.round_trip_s

    @property
    def described(self) -> BoardFacts:
        """The board's facts at the start of its agent; raises BoardLost before that."""
        if self._described is None:
            raise BoardLost(f"board '{self.name}' was never reserved")
        return self._described

    def reserve(self, lock_timeout_s: float | None = None) -> None:
        """Connect, start the agent, take the lock; does nothing when that is done.

        Raises BoardBusy when another user keeps the board for `lock_timeout_s` (default: the one given at
        construction), BoardUnfit when it does not match the target, what the reach raises, and BoardLost when another
        thread closes the board.
        """
        if self._link is None:
            with self._closing.watched():
                self.reach.connect()
                wait_s = self._lock_timeout_s if lock_timeout_s is None else lock_timeout_s
                self._start_agent(_ANSWER_S, min(wait_s, self._lock_timeout_s))

    def put(self, path: Path) -> str:
        """Copy an array (.npy) or a library to the agent, once per content; return its name there."""
        content, frames = self._contents.put(path)
        if self._link is None:
            self._contents.all_gone()
        else:
            self._send(b"".join(frames))
        return content.name

    def begin(self, request: RunRequest) -> None:
        """Start to check and time a candidate, after sending the files that the agent lacks."""
        if self._trial is not None or self._ready is not None:
            raise ValueError(f"board '{self.name}' is busy")
        library, *arrays = [self._contents.named(name) for name in (request.library, *request.arrays)]
        self._number += 1
        self._early.clear()
        trial = Trial(self._number, request, library, tuple(arrays))
        if problem := trial.too_much(self._room):
            self._ready = trial.crashed(problem)
            self._bell.ring()
        else:
            self._submit(trial, self._cache_bytes)

    def _submit(self, trial: Trial, most_bytes: int) -> None:
        """Request a trial, after sending what it lacks and freeing other content beyond `most_bytes` in all."""
        frames = [frame for content in trial.contents for frame in self._contents.bring(content)]
        spared = self._contents.spare([content.key for content in trial.contents], most_bytes)
        data = b"".join((*spared, *frames, trial.ask(self._cores, self._cold_bytes)))
        self._send(data)
        patience_s = self._allowed(_PATIENCE_S) + len(data) / _SLOWEST_BYTES_S
        gives_up = time.monotonic() + trial.request.deadline_s + patience_s
        self._trial = replace(trial, gives_up=gives_up)

    def fileno(self) -> int:
        """Descriptor that is readable when `collect` has something, even an error."""
        return self._bell.fileno() if self._link is None or self._ready is not None else self._link.fileno()

    def collect(self, timeout_s: float = 0.0) -> RunResult | None:
        """Return the result if it is there within `timeout_s`; raises BoardLost."""
        deadline = time.monotonic() + timeout_s
        if self._ready is not None:
            ready, self._ready = self._ready, None
            if self._link is not None:
                self._bell.hush()
            return ready
        while self._trial is not None:
            trial, now = self._trial, time.monotonic()
            if now >= trial.gives_up:
                raise self._silent(
                    f"it did not report the result of a candidate within "
                    f"{now - trial.gives_up + trial.request.deadline_s:.0f} s"
                )
            early, self._early = self._early, []
            for message in early or self._receive(min(deadline, trial.gives_up) - now):
                result = self._result(trial, message)
                if result is not None:
                    self._trial = None
                    return result
            if time.monotonic() >= deadline:
                break
        return None

    def health(self) -> dict[str, Reading]:
        """Read the board's sensors; only `page_faults` where an emulator counts instructions."""
        self._number += 1
        core = self._cores[-1] if self._cores else 0
        self._send(messages.ask_health(self._number, core))
        readings = self._await(lambda message: isinstance(message, Health) and message.number == self._number)
        assert isinstance(readings, Health)  # noqa: S101  for the type checker
        if self._target.clock == "instructions":
            return {key: value for key, value in readings.readings.items() if key == "page_faults"}
        return dict(readings.readings)

    def recover(self) -> None:
        """Try the recovery levels until the board answers; drops the current request. Raises BoardLost."""
        rungs = (
            RecoveryLevel("the same agent", self._allowed(recovery.PING_S), self._same_agent),
            RecoveryLevel("a new agent", self._allowed(recovery.AGENT_S, STEPS), self._new_agent),
            RecoveryLevel("connecting again", self._allowed(recovery.CONNECT_S, LOGIN), self._connect_again),
        )
        self._climb((*rungs, *self._restarts()))

    def restart(self) -> None:
        """Try the recovery levels from a restart on, for a board that answers and is not fit. Raises as `recover`."""
        self._climb(self._restarts())

    def _restarts(self) -> tuple[RecoveryLevel, ...]:
        return (
            RecoveryLevel(
                "restarting the board", recovery.REBOOT_S, lambda limit: self._after(self.reach.reboot, limit)
            ),
            RecoveryLevel(
                "cutting its power", recovery.POWER_S, lambda limit: self._after(self.reach.power_cycle, limit)
            ),
        )

    def _climb(self, rungs: Sequence[RecoveryLevel]) -> None:
        self._trial = self._ready = None
        with self._closing.watched():
            recovery.recover_by_levels(self.name, rungs, self._on_event, self._closing.begun)

    def release(self) -> None:
        """Keep the board: its lock is taken once, and released by `close`."""

    def close(self) -> None:
        """End the agent, remove the files that were put there, disconnect. May be called twice.

        Another thread that is reserving or recovering the board gets BoardLost, and leaves nothing there either.
        """
        if self._closing.begun.is_set():
            return
        self._closing.begun.set()
        starting = self._starting
        if starting is not None and (greeting := starting.link) is not None:
            greeting.close()
        self._end_agent()
        try:
            self._leave()
        finally:
            self._bell.close()

    def _leave(self) -> None:
        with self._leaving:
            try:
                self.reach.clean()
            except BoardUnavailable as error:
                self._tell("lost", f"edgetune's files may remain there: {error.message}")
            finally:
                self.reach.close()

    def _start_agent(self, timeout_s: float, lock_s: float) -> None:
        facts = self._described = self.reach.facts()
        program = build_agent(self._target, self._cache)
        arguments = ["--idle", f"{self._idle_s:g}", "--folder", facts.folder]
        if self._target.clock == "instructions":
            arguments.append("--count")
        starting = self._starting = AgentStart(
            self.name,
            self.reach,
            program,
            arguments,
            self._idle_s / 4,
            self._closing,
            lambda hello: check_hello(self.name, self._target, hello, self._asked_cores),
            self._tell,
        )
        try:
            link, first = starting.run(timeout_s, min(lock_s, self._lock_timeout_s))
        finally:
            self._starting = None
        self._take_over(link, first, facts)

    def _take_over(self, link: AgentLink, hello: Hello, facts: BoardFacts) -> None:
        if self._closing.begun.is_set():
            link.close()
            self._closing.check()
        self._link, self._refusal = link, ""
        self._contents.all_gone()
        self._room = hello.memory_bytes // 2  # the agent has the same limit
        self._cache_bytes = min(_MOST_CACHE_BYTES, hello.memory_bytes // 4)
        counts = self._target.clock == "instructions"
        self._cores = self._asked_cores or (() if counts or len(hello.cores) < 2 else (max(hello.cores),))  # noqa: PLR2004
        self._bell.hush()
        for fallback in fallbacks(facts, hello):
            self._tell("fallback", fallback)
        self.facts |= told_facts(facts, hello, self._cores)

    def _end_agent(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
            self._bell.ring()

    def _same_agent(self, _: float) -> bool:
        token = time.monotonic_ns() | 1
        self._send(encode(FrameType.CANCEL) + messages.ping(token), recovery.PING_S)
        self._await(lambda message: isinstance(message, Pong) and message.token == token, recovery.PING_S)
        return True

    def _new_agent(self, _: float) -> bool:
        self._end_agent()
        self._start_agent(recovery.AGENT_S, _RECOVER_LOCK_S)
        return True

    def _connect_again(self, _: float) -> bool:
        self._end_agent()
        self.reach.close()
        self._closing.check()
        self.reach.connect(recovery.CONNECT_S)
        self._start_agent(_ANSWER_S, _RECOVER_LOCK_S)
        return True

    def _after(self, restart: Callable[[float], bool], limit_s: float) -> bool:
        self._end_agent()
        if not restart(limit_s):
            return False
        self._closing.check()
        self.reach.connect()
        self._start_agent(_ANSWER_S, _RECOVER_LOCK_S)
        return True

    def _present(self) -> AgentLink:
        link = self._link  # another thread may close the board
        if link is None:
            raise BoardLost(f"board '{self.name}' has no agent: it was lost, or never reserved")
        return link

    def _send(self, data: bytes, timeout_s: float = _ANSWER_S) -> None:
        if not data:
            return
        link = self._present()
        try:
            link.send(data, timeout_s + len(data) / _SLOWEST_BYTES_S)
        except BoardLost as error:
            raise self._lose(error.message) from error

    def _receive(self, timeout_s: float) -> list[Message]:
        link = self._present()
        try:
            return link.receive(max(0.0, timeout_s))
        except (BoardLost, ProtocolViolation) as error:
            raise self._lose(error.message) from error

    def _allowed(self, least_s: float, trips: int = ANSWER) -> float:
        return allowed_s(least_s, self.reach.round_trip_s, trips)

    def _await(self, wanted: Callable[[Message], bool], least_s: float = _ANSWER_S) -> Message:
        """Receive until `wanted` accepts a message; keeps messages about the current candidate for `collect`."""
        timeout_s = self._allowed(least_s)
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            for message in self._receive(left):
                if wanted(message):
                    return message
                if isinstance(message, Result) or (isinstance(message, Refused) and message.type == FrameType.RUN):
                    self._early.append(message)
                else:
                    self._note(message)
                if len(self._early) > _MOST_EARLY:
                    raise self._lose("its agent sends without end")
        raise self._silent(f"its agent did not answer within {timeout_s:.0f} s")

    def _result(self, trial: Trial, message: Message) -> RunResult | None:
        """Return the result in a message about the trial; None for other messages."""
        if isinstance(message, Result) and message.number == trial.number:
            self._refusal = ""
            return run_result(trial.request, message)
        if isinstance(message, Refused) and message.type == FrameType.RUN and message.number == trial.number:
            return self._refused(trial, self._refusal or message.reason)
        self._note(message)
        return None

    def _refused(self, trial: Trial, reason: str) -> RunResult | None:
        """Send the request again with nothing else there; if its arrays do not fit even then, the candidate fails."""
        missing = self._contents.refused(trial.contents)
        if missing and not trial.again:
            self._number += 1
            self._submit(replace(trial, number=self._number, again=True), 0)
            return None
        if any(content.kind == messages.ARRAY for content in missing):
            self._refusal = ""
            return trial.crashed(f"the memory of the board has no room for a candidate's arrays: {reason}")
        raise self._lose(f"its agent refuses a candidate: {reason}")

    def _note(self, message: Message) -> None:
        if isinstance(message, Stored):
            self._contents.stored(message.content)
        if isinstance(message, Refused):
            self._refusal = self._refusal or message.reason  # keep the first: later pieces of a push are refused too
            if message.type == 0:
                raise self._lose(f"its agent gave up: {message.reason}")

    def _lose(self, why: str) -> BoardLost:
        """Note that the agent is unusable; return the error to raise."""
        self._trial = self._ready = None
        self._end_agent()
        return BoardLost(why if self.name in why else f"board '{self.name}': {why}")

    def _silent(self, why: str) -> BoardLost:
        """As `_lose`, but the agent may answer again: the first recovery level tries that."""
        self._trial = self._ready = None
        return BoardLost(f"board '{self.name}': {why}")

    def _tell(self, what: str, detail: str) -> None:
        self._on_event(Event("board", {"board": self.name, "what": what, "detail": detail}))
