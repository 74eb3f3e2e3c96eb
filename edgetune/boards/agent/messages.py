"""Messages of the agent protocol: encodes requests as frames, decodes an agent's answers and checks every value."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.boards.agent.frames import Frame, FrameType, encode, printable
from edgetune.boards.environment import Reading
from edgetune.boards.protocol import RunRequest
from edgetune.errors import ProtocolViolation
from edgetune.graph.accuracy import Tolerance

ID_BYTES = 32
ARRAY, LIBRARY = 0, 1
MOST_ARRAYS = 1024
MOST_SAMPLES = 4096
PHASES = ("start", "load", "check", "time")
STOPS = ("", "narrow", "budget", "slow", "count")
ROLES = {"input": 0, "constant": 1, "output": 2, "part": 3}
_ELEMENT_TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"
DTYPES = {name: code for code, name in enumerate(_ELEMENT_TYPES.split())}  # as in templates/accuracy.h
_ENDINGS, _VERDICTS, _PROBLEMS, _MOMENTS = 4, 4, 6, 2  # the highest code of each, as in report.h and supervise.h
_PIECE = 1 << 18
_READINGS = {
    1: ("governor", 0),
    2: ("clock_khz", 1),
    3: ("clock_max_khz", 1),
    4: ("throttle_count", 1),
    5: ("temperature_c", 2),
    6: ("load_1min", 2),
    7: ("page_faults", 1),
    8: ("throttle_flags", 1),
    9: ("clock_min_khz", 1),
}


@dataclass(frozen=True)
class Hello:
    """Greeting of an agent. `bits` is the width of a pointer, `cores` those it may use, `page` in bytes.

    `memfd`: libraries stay in memory; `counts`: instructions are counted; `limits_memory`: the kernel limits memory,
    not polling; `locked`: the agent holds the board's lock.
    """

    version: int
    bits: int
    memfd: bool
    counts: bool
    limits_memory: bool
    locked: bool
    page: int
    pid: int
    memory_bytes: int
    machine: str
    libc: str
    kernel: str
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Busy:
    """Another user has the board; the lock expires after this many seconds without a message from that user's host."""

    expires_s: int
    owner: str


@dataclass(frozen=True)
class Pong:
    """Answer to a ping: whether a candidate runs, and its phase."""

    token: int
    running: bool
    phase: str


@dataclass(frozen=True)
class Stored:
    """A push is complete."""

    content: bytes
    kind: int


@dataclass(frozen=True)
class Refused:
    """The agent refuses a request; `type` is the type of the frame, `number` the number of the request."""

    type: int
    number: int
    reason: str


@dataclass(frozen=True)
class Health:
    """Readings by the keys of `edgetune.boards.environment`, with `page_faults` of the last timing."""

    number: int
    readings: dict[str, Reading]


@dataclass(frozen=True)
class Result:
    """The result of a trial, with the codes of `templates/agent/report.h` and `supervise.h`.

    `ending`: 0 it reported, 1 it died (`code`: exit code, or minus the signal), 2 deadline, 3 too much memory, 4
    cancelled. `verdict`: 0 right, 1 wrong, 2 not loaded, 3 it forked, 4 it could not be tried. `seconds`: of loading,
    checking and timing, and of the whole trial on the board, from the request to the answer. `moment`: 0 the first
    call, 1 the call number `call`, 2 after all of them. `cycle_ns`: duration of a cycle of the core, in nanoseconds; 0
    if not measured.
    """

    number: int
    ending: int
    code: int
    phase: str
    verdict: int
    problem: int
    moment: int
    index: int
    call: int
    stopped: str
    repeat: int
    worst: tuple[float, float]
    difference: tuple[float, float]
    seconds: tuple[float, float, float, float]
    cycle_ns: float
    page_faults: tuple[int, int]
    reason: str
    samples: tuple[float, ...]


Message = Hello | Busy | Pong | Stored | Refused | Health | Result


class _Payload:
    """Reads values from a payload; raises ProtocolViolation for a payload that is too short, too long, or invalid."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        return tuple(int(value) for value in self._unpack(layout))

    def fractions(self, count: int) -> tuple[float, ...]:
        return tuple(float(value) for value in self._unpack(f"{count}d"))

    def raw(self, count: int) -> bytes:
        start, self._at = self._at, self._at + count
        if self._at > len(self._frame.payload):
            raise self.wrong("is too short")
        return self._frame.payload[start : self._at]

    def text(self) -> str:
        (length,) = self.take("H")
        return printable(self.raw(length))

    def among(self, names: Sequence[str]) -> str:
        (index,) = self.take("B")
        if index >= len(names):
            raise self.wrong(f"names choice {index} of {len(names)}")
        return names[index]

    def end(self) -> None:
        if self._at != len(self._frame.payload):
            raise self.wrong("is too long")

    def wrong(self, how: str) -> ProtocolViolation:
        return ProtocolViolation(f"a {self._frame.type.name} frame of the agent {how}")

    def _unpack(self, layout: str) -> tuple[float, ...]:
        packed = struct.Struct(f"<{layout}")
        return packed.unpack(self.raw(packed.size))


def decode(frame: Frame) -> Message:
    """Return the message in a frame from an agent; raises ProtocolViolation."""
    payload = _Payload(frame)
    message: Message
    match frame.type:
        case FrameType.HELLO:
            message = _hello(payload)
        case FrameType.BUSY:
            message = Busy(payload.take("I")[0], payload.text())
        case FrameType.PONG:
            token, running = payload.take("QB")
            message = Pong(token, bool(running), payload.among(PHASES))
        case FrameType.STORED:
            message = Stored(payload.raw(ID_BYTES), payload.take("B")[0])
        case FrameType.REFUSED:
            kind, number = payload.take("HI")
            message = Refused(kind, number, payload.text())
        case FrameType.HEALTH:
            message = _health(payload)
        case FrameType.RESULT:
            message = _result(payload)
        case _:
            raise payload.wrong("is not one that edgetune receives")
    payload.end()
    return message


def _hello(payload: _Payload) -> Hello:
    version, bits, flags, page, pid, memory = payload.take("HBBIIQ")
    machine, libc, kernel = payload.text(), payload.text(), payload.text()
    (count,) = payload.take("B")
    cores = payload.take(f"{count}H")
    if bits not in {32, 64} or page == 0:
        raise payload.wrong(f"reports {bits} bits and pages of {page} bytes")
    memfd, counts, limits_memory, locked = (bool(flags & 1 << bit) for bit in range(4))
    return Hello(version, bits, memfd, counts, limits_memory, locked, page, pid, memory, machine, libc, kernel, cores)


def _health(payload: _Payload) -> Health:
    number, count = payload.take("IB")
    readings: dict[str, Reading] = {}
    for _ in range(count):
        key, kind = payload.take("BB")
        name, wanted = _READINGS.get(key, ("", -1))
        if kind != wanted:
            raise payload.wrong(f"has a reading {key} of kind {kind}")
        if kind == 0:
            readings[name] = payload.text()
        elif kind == 1:
            (readings[name],) = payload.take("Q")
        else:
            (value,) = payload.fractions(1)
            if not math.isfinite(value):
                raise payload.wrong(f"has {value} as {name}")
            readings[name] = value
    return Health(number, readings)


def _result(payload: _Payload) -> Result:
    number, ending, code = payload.take("IBi")
    phase = payload.among(PHASES)
    verdict, problem, moment, index, call = payload.take("BBBHI")
    stopped = payload.among(STOPS)
    (repeat,) = payload.take("I")
    errors = payload.fractions(4)
    *seconds, cycle_ns = payload.fractions(5)
    faults = payload.take("QQ")
    reason = payload.text()
    (count,) = payload.take("I")
    if count > 2 * MOST_SAMPLES:
        raise payload.wrong(f"has {count} samples")
    samples = payload.fractions(count)
    known = ending <= _ENDINGS and verdict <= _VERDICTS and problem <= _PROBLEMS and moment <= _MOMENTS
    if not known or any(math.isnan(error) or error < 0 for error in errors):
        raise payload.wrong("makes no sense")
    if not all(math.isfinite(value) and value >= 0 for value in (*seconds, cycle_ns)):
        raise payload.wrong("has invalid times")
    if not all(math.isfinite(sample) and sample > 0 for sample in samples):
        raise payload.wrong("has samples that are not times")
    if ending == 0 and verdict == 0 and (not samples or repeat < 1 or not stopped):
        raise payload.wrong("has no samples")
    return Result(
        number=number,
        ending=ending,
        code=code,
        phase=phase,
        verdict=verdict,
        problem=problem,
        moment=moment,
        index=index,
        call=call,
        stopped=stopped,
        repeat=repeat,
        worst=(errors[0], errors[1]),
        difference=(errors[2], errors[3]),
        seconds=(seconds[0], seconds[1], seconds[2], seconds[3]),
        cycle_ns=cycle_ns,
        page_faults=(faults[0], faults[1]),
        reason=reason,
        samples=samples,
    )


def ping(token: int) -> bytes:
    """Return the frame that asks whether the agent answers."""
    return encode(FrameType.PING, struct.pack("<Q", token))


def push(content: bytes, kind: int, data: bytes) -> list[bytes]:
    """Return the frames that send `data` to the agent under the id `content`."""
    head = content + struct.pack("<BQ", kind, len(data))
    return [
        encode(FrameType.PUT, head + struct.pack("<Q", offset) + data[offset : offset + _PIECE])
        for offset in range(0, max(len(data), 1), _PIECE)
    ]


def forget(content: bytes) -> bytes:
    """Return the frame that has the agent free what was pushed under an id."""
    return encode(FrameType.FORGET, content)


def ask_health(number: int, core: int) -> bytes:
    """Return the frame that requests readings of a core."""
    return encode(FrameType.ASK_HEALTH, struct.pack("<IH", number, core))


@dataclass(frozen=True)
class ArrayUse:
    """A pushed array as a parameter of the call; arrays of a dtype that the agent lacks are compared as bytes."""

    content: bytes
    role: str
    dtype: str
    tolerance: Tolerance


def run(
    number: int,
    request: RunRequest,
    library: bytes,
    arrays: Sequence[ArrayUse],
    cores: Sequence[int] = (),
    cold_bytes: int = 0,
) -> bytes:
    """Return the frame that requests a trial; `request` has limits and policy. Raises ValueError if it is too large."""
    if len(arrays) > MOST_ARRAYS:
        raise ValueError(f"the kernel has {len(arrays)} parameters: an agent takes at most {MOST_ARRAYS}")
    policy = request.timing
    least, few = (min(count, MOST_SAMPLES) for count in (policy.min_samples, policy.few_samples))
    parts = [
        struct.pack("<I", number),
        library,
        struct.pack(
            "<3Q2d", request.scratch_bytes, request.memory_bytes, cold_bytes, request.deadline_s, request.best_ns
        ),
        struct.pack("<Q", request.seed),
        struct.pack("<4d", policy.budget_ns, policy.sample_ns, policy.warm_up_ns, policy.min_sampling_ns),
        struct.pack("<2d", policy.narrow, policy.hopeless),
        struct.pack("<3I", least, max(least, few, min(policy.max_samples, MOST_SAMPLES)), few),
        struct.pack(f"<H{len(cores)}H", len(cores), *cores),
        struct.pack("<H", len(arrays)),
    ]
    for use in arrays:
        allowed = use.tolerance
        kinds = struct.pack("<BB", ROLES[use.role], DTYPES.get(use.dtype, DTYPES["bool"]))
        parts += [use.content, kinds, struct.pack("<3d", allowed.relative, allowed.absolute, allowed.share)]
    return encode(FrameType.RUN, b"".join(parts))
