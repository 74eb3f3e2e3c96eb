"""Messages larger than a pipe never make the sender wait, arrive whole and in order, or are dropped at the end."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from edgetune.ipc.child_process import AsyncWriter, ChildProcess
from edgetune.measure.build_worker import BuildPolicy
from edgetune.measure.builder import BuildPool
from edgetune.measure.compiler import toolchain_of
from edgetune.measure.jobs import BuildJob, CandidateBuild
from edgetune.target.target import load_target
from tests import measure_steps

PIPE_BYTES = 1 << 16


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_what_the_pipe_does_not_take_comes_later_and_in_order() -> None:
    reading, writing = os.pipe()
    outbox = AsyncWriter(writing)
    messages = [bytes([number]) * size for number, size in enumerate((10, 5 * PIPE_BYTES, 1, 3 * PIPE_BYTES, 7))]
    for message in messages:
        outbox.send(message)
    expected = b"".join(messages)
    found = b""
    while len(found) < len(expected):
        found += os.read(reading, 1000)
    assert found == expected
    outbox.send(b"last")
    assert os.read(reading, 10) == b"last"
    outbox.close()
    outbox.close()
    assert "edgetune-outbox" not in threads()
    os.close(reading)
    os.close(writing)


def keep_sending(outbox: AsyncWriter) -> None:
    while True:
        outbox.send(b"more")
        time.sleep(0.001)


@pytest.mark.parametrize("gone", [True, False])
def test_a_reader_that_never_reads_holds_up_nobody(gone: bool) -> None:
    reading, writing = os.pipe()
    outbox = AsyncWriter(writing)
    outbox.send(bytes(4 * PIPE_BYTES))
    if gone:
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            keep_sending(outbox)
    outbox.close()
    with pytest.raises(BrokenPipeError, match="closed"):
        outbox.send(b"more")
    assert "edgetune-outbox" not in threads()
    if not gone:
        os.close(reading)
    os.close(writing)


def stubborn() -> None:
    """A child that never reads its messages."""
    time.sleep(1000)


def test_a_child_that_does_not_read_can_be_killed(tmp_path: Path) -> None:
    child = ChildProcess("tests.ipc.test_async_writer", [], tmp_path / "log")
    assert child.send(bytes(10 * PIPE_BYTES))
    child.kill()
    assert not Path(f"/proc/{child.pid}").exists()
    assert "edgetune-outbox" not in threads()


main = stubborn
"""What the child above runs."""


@pytest.mark.long
def test_a_worker_at_work_is_told_more_than_a_pipe_holds(tmp_path: Path) -> None:
    """The second job comes with 20000 known candidates (1.3 MB) while the first one hangs: its time-out still works."""
    target = load_target("host")
    pool = BuildPool(
        tmp_path,
        target,
        toolchain_of(target, 30.0),
        BuildPolicy("tests.measure_steps:make_source", "tests.measure_steps:make_case", compile_timeout_s=5.0),
    )
    try:
        for key in ("k", "j"):
            pool.register(measure_steps.spec(key))
        pool.submit(BuildJob("hangs", "k", measure_steps.trace(lowering="hang")))
        pool.add_known("j", [f"{number:064x}" for number in range(20_000)])
        pool.submit(BuildJob("next", "j", measure_steps.trace()))
        results: dict[str, CandidateBuild] = {}
        deadline = time.monotonic() + 120
        while len(results) < 2 and time.monotonic() < deadline:
            results |= {item.job_id: item for item in pool.poll(0.2) if isinstance(item, CandidateBuild)}
    finally:
        pool.close()
    assert {name: result.status for name, result in results.items()} == {"hangs": "timeout", "next": "built"}
