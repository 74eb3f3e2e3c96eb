"""Frames from a board are taken for hostile, and so are frames to the agent: what is none is refused, early."""

from __future__ import annotations

import contextlib
import select
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.boards.agent import frames, messages
from edgetune.boards.agent.build import build_agent
from edgetune.boards.agent.frames import Frame, FrameParser, FrameType, encode
from edgetune.boards.agent.messages import Hello, Message, Pong, Refused, Result, Stored
from edgetune.boards.process import ProcessReach, ProcessStream
from edgetune.errors import BoardLost, ProtocolViolation
from edgetune.target.target import load_target

FROM_AGENT = [kind for kind in FrameType if kind >= FrameType.HELLO]


def whole(data: bytes) -> list[Frame]:
    return FrameParser().feed(data)


@given(st.lists(st.tuples(st.sampled_from(FROM_AGENT), st.binary(max_size=200)), max_size=5), st.integers(1, 40))
def test_frames_come_out_as_they_went_in_however_they_are_cut(sent: list[tuple[FrameType, bytes]], step: int) -> None:
    data = b"".join(encode(*one) for one in sent)
    parser = FrameParser()
    got = [frame for at in range(0, len(data), step) for frame in parser.feed(data[at : at + step])]
    assert [(frame.type, frame.payload) for frame in got] == sent


@given(st.sampled_from(FROM_AGENT), st.binary(max_size=100), st.data())
def test_a_flipped_bit_is_noticed(kind: FrameType, payload: bytes, data: st.DataObject) -> None:
    frame = bytearray(encode(kind, payload))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        assert whole(bytes(frame)) == []  # a length that has grown: the rest never comes
    except ProtocolViolation:
        return
    assert 8 <= at < 12


@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_a_violation(data: bytes) -> None:
    try:
        for frame in whole(data):
            messages.decode(frame)
    except ProtocolViolation:
        pass
    else:
        assert len(data) < 16 or data.startswith(frames.MAGIC)


@given(st.sampled_from(FROM_AGENT), st.binary(max_size=400))
def test_any_payload_is_a_message_or_a_violation(kind: FrameType, payload: bytes) -> None:
    with contextlib.suppress(ProtocolViolation):
        messages.decode(Frame(kind, payload))


def test_a_login_file_that_prints_is_named_at_once() -> None:
    with pytest.raises(ProtocolViolation, match=r"'W' where a frame should begin: look for something that prints"):
        whole(b"W")
    with pytest.raises(ProtocolViolation, match=r"Welcome to \?\[1mboard"):
        whole(b"Welcome to \x1b[1mboard")


def test_an_oversized_frame_is_refused_before_it_comes() -> None:
    header = struct.pack("<4sHHII", frames.MAGIC, frames.VERSION, FrameType.RESULT, frames.MOST_TAKEN + 1, 0)
    with pytest.raises(ProtocolViolation, match="at most 131072 are allowed"):
        whole(header)


def test_another_version_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="version 1 of the protocol"):
        whole(struct.pack("<4sHHII", frames.MAGIC, 1, FrameType.RESULT, 0, 0))


def test_frames_that_only_a_host_sends_are_refused() -> None:
    with pytest.raises(ProtocolViolation, match="which it may not send"):
        whole(encode(FrameType.RUN))


def result_of(sample: float, load_s: float = 0.0) -> Message:
    head = struct.pack("<IBiBBBBHIBI", 1, 0, 0, 3, 0, 0, 0, 0, 0, 1, 1)
    numbers = (0.0, 0.0, 0.0, 0.0, load_s, 0.0, 0.0, 0.0, 0.25)
    return messages.decode(Frame(FrameType.RESULT, head + struct.pack("<9dQQHId", *numbers, 0, 0, 0, 1, sample)))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, 0.0])
def test_times_that_are_none_are_refused(bad: float) -> None:
    good = result_of(5.0)
    assert isinstance(good, Result)
    assert good.samples == (5.0,)
    with pytest.raises(ProtocolViolation, match="samples that are not times"):
        result_of(bad)  # no logarithm of it, and nothing would ever be faster
    if bad:
        with pytest.raises(ProtocolViolation, match="invalid times"):
            result_of(5.0, bad)


class Wire:
    """An agent with nothing between it and the test."""

    def __init__(self, folder: Path) -> None:
        target = load_target("host")
        self.reach = ProcessReach("wire", target, cache=folder)
        self.transport: ProcessStream = self.reach.start(build_agent(target, folder), ["--idle", "60"])
        self.parser = FrameParser()

    def messages(self, limit_s: float = 60.0) -> list[Message]:
        """What comes next; nothing once the agent has ended."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            select.select([self.transport], [], [], 0.2)
            try:
                found = self.parser.feed(self.transport.receive())
            except BoardLost:
                return []
            if found:
                return [messages.decode(frame) for frame in found]
        raise AssertionError("the agent says nothing and does not end")

    def send(self, data: bytes) -> None:
        self.transport.send(data, 5.0)


@pytest.fixture
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    wire = Wire(tmp_path_factory.getbasetemp() / "agent-wire")
    assert isinstance(wire.messages()[0], Hello)
    yield wire
    wire.reach.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"rubbish that is no frame", "does not begin with its magic number"),
        (struct.pack("<4sHHII", b"ETAG", 9, 1, 0, 0), "another version"),
        (struct.pack("<4sHHII", b"ETAG", frames.VERSION, 1, (1 << 20) + 1, 0), "longer than allowed"),
        (encode(FrameType.PING, b"12345678")[:-1] + b"9", "checksum"),
    ],
)
def test_an_agent_gives_up_on_a_broken_stream_and_says_why(wire: Wire, data: bytes, words: str) -> None:
    wire.send(data)
    (refused,) = wire.messages()
    assert isinstance(refused, Refused)
    assert words in refused.reason
    assert wire.messages() == []


def test_an_agent_takes_frames_in_pieces(wire: Wire) -> None:
    for byte in messages.ping(77):
        wire.send(bytes([byte]))
    (pong,) = wire.messages()
    assert pong == Pong(77, running=False, phase="start")


def test_an_agent_waits_for_the_rest_of_a_frame_and_ends_with_its_input(wire: Wire) -> None:
    wire.send(encode(FrameType.PUT, b"x" * 1000)[:500])
    wire.transport._stdin.close()
    assert wire.messages() == []
    assert wire.transport._process.wait(60) == 0


@given(payload=st.binary(max_size=200), kind=st.sampled_from([1, 2, 3, 4, 5, 6, 8, 99]))
def test_an_agent_survives_any_payload(shared_wire: Wire, payload: bytes, kind: int) -> None:
    frame = bytearray(encode(FrameType.PING, payload))
    frame[6:8] = struct.pack("<H", kind)
    frame[12:16] = struct.pack("<I", zlib.crc32(payload, zlib.crc32(frame[:12])))
    shared_wire.send(bytes(frame) + messages.ping(5))
    while Pong(5, running=False, phase="start") not in shared_wire.messages():
        pass


@pytest.fixture(scope="module")
def shared_wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    wire = Wire(tmp_path_factory.getbasetemp() / "agent-wire")
    assert isinstance(wire.messages()[0], Hello)
    yield wire
    wire.reach.close()


def test_pushes_are_checked(wire: Wire) -> None:
    key, other = b"k" * 32, b"o" * 32
    data = bytes(range(256)) * 3000
    for frame in messages.push(key, messages.ARRAY, data):
        wire.send(frame)
    assert wire.messages() == [Stored(key, messages.ARRAY)]
    for frame in messages.push(key, messages.ARRAY, data):  # known already
        wire.send(frame)
    assert wire.messages() == [Stored(key, messages.ARRAY)]
    wire.send(messages.push(other, messages.ARRAY, data)[1])
    (refused,) = wire.messages()
    assert isinstance(refused, Refused)
    assert refused.reason == "a push goes on that was not begun"
    wire.send(encode(FrameType.PUT, other + struct.pack("<BQQ", 0, 1 << 60, 0)))
    (refused,) = wire.messages()
    assert isinstance(refused, Refused)
    assert refused.reason in {"no memory left for what is pushed", "a push makes no sense"}
