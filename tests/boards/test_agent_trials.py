"""Candidates that do all they should not, tried by an agent: here, and on two emulated processors that count."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetune.boards.agent import messages
from edgetune.boards.agent.build import build_agent
from edgetune.boards.protocol import RunResult
from edgetune.errors import BoardLost
from edgetune.graph.accuracy import Tolerance
from edgetune.target.target import load_target
from tests.boards.agent_bench import COUNT, AgentBench, command_of, compile_library, parent_of, processes

BOARDS = ("host", "qemu-aarch64", "qemu-armv7")
ENDS_S = 60.0


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=BOARDS)
def bench(
    request: pytest.FixtureRequest, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentBench]:
    bench = AgentBench(load_target(request.param), tmp_path_factory.mktemp("bench"), cache)
    yield bench
    bench.close()


@pytest.mark.long
def test_a_good_candidate_is_measured(bench: AgentBench) -> None:
    result = bench.run()
    assert (result.status, result.reason) == ("ok", "")
    assert set(result.seconds) == {"process", "load", "check", "time"}
    assert result.error_relative == 0
    assert all(sample > 0 for sample in result.samples_ns)
    assert len(result.samples_ns) >= 3


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        (1, "crashed", "killed by SIGSEGV in phase 'check'"),
        (3, "crashed", "exit code 0 in phase 'check'"),
        (4, "crashed", "the kernel started a process"),
        (6, "wrong_result", "writes to parameter 3 after its end"),
        (7, "wrong_result", "writes to parameter 3 before its start"),
        (8, "crashed", "SIGSEGV"),
        (11, "wrong_result", "output 3 differs from the reference by 1 ("),
        (12, "wrong_result", "in call 2: output 3 differs"),
        (13, "crashed", "SIGSEGV"),
        (14, "crashed", "SIGSEGV"),
        (15, "wrong_result", "inf"),
        (16, "crashed", "killed by SIGABRT"),
        (18, "crashed", "the kernel started a process"),
        (25, "wrong_result", "output 3 differs"),
    ],
)
def test_a_bad_candidate_is_told_apart(bench: AgentBench, what: int, status: str, words: str) -> None:
    result = bench.run(what)
    assert (result.status, words in result.reason) == (status, True), result.reason
    assert result.samples_ns == ()
    assert bench.run().status == "ok"


@pytest.mark.parametrize("what", [2, 20, 21])
def test_a_candidate_that_hangs_is_stopped_at_its_deadline(bench: AgentBench, what: int) -> None:
    began = time.monotonic()
    result = bench.run(what, deadline_s=1.5)
    assert (result.status, result.reason) == ("timeout", "still in phase 'check' after 1.5 s")
    assert time.monotonic() - began >= 1.5
    assert bench.run().status == "ok"


def test_a_candidate_that_takes_all_memory_is_stopped(bench: AgentBench) -> None:
    result = bench.run(5)
    assert result.status == "crashed"
    assert "SIGSEGV" in result.reason or "more than 256 MB" in result.reason


@pytest.mark.parametrize("what", [9])
def test_what_does_no_harm_is_measured(bench: AgentBench, what: int) -> None:
    result = bench.run(what)
    assert result.status == "ok", result.reason


def test_a_candidate_that_closes_every_descriptor_harms_only_itself(bench: AgentBench) -> None:
    """Its verdict is in shared memory; what counts instructions is reached by a descriptor, so it goes uncounted."""
    counted = bench.target.clock == "instructions"
    climbed = bench.told("rung")
    result = bench.run(19)
    reason = "nobody counts its instructions" if counted else ""
    assert (result.status, result.reason) == ("crashed" if counted else "ok", reason)
    assert bench.run().status == "ok"
    assert bench.told("rung") == climbed, "the agent and its pipes stay as they are"


@pytest.mark.parametrize(("dtype", "fill"), [("float32", 0xFF), ("int8", 0x5A), ("uint8", 0x5A)])
def test_who_writes_into_the_gaps_of_an_output_is_wrong(bench: AgentBench, dtype: str, fill: int) -> None:
    expected = 2 * bench.a + bench.w
    expected.view(np.uint8).reshape(-1, 8)[:, 4:] = fill
    gaps = bench.board.put(bench.save("gaps", expected.view(dtype)))

    def try_it(what: int) -> RunResult:
        arrays = (*bench.request(what).arrays[:3], gaps)
        return bench.run(what, arrays=arrays, roles=("input", "input", "constant", "part"))

    result = try_it(28)
    assert (result.status, result.reason) == ("ok", "")
    result = try_it(0)
    assert (result.status, "output 3 differs" in result.reason) == ("wrong_result", True), result.reason


def test_scratch_is_given_and_fenced(bench: AgentBench) -> None:
    assert bench.run(23, scratch_bytes=128).status == "ok"
    result = bench.run(24, scratch_bytes=128)
    assert result.status == "crashed"
    result = bench.run(23, scratch_bytes=100)
    assert (result.status, result.reason) == ("wrong_result", "writes to scratch after its end")


def test_nothing_of_a_candidate_remains(bench: AgentBench) -> None:
    bench.run()
    agents = waiting(bench)
    for what in (4, 18, 22, 2, 26, 27):
        bench.run(what, deadline_s=0.3)
        assert waiting(bench) == agents, f"after candidate {what}"  # orphans have gone to whoever takes them


def test_a_process_waits_for_the_next_candidate_and_nobody_minds_when_it_is_killed(bench: AgentBench) -> None:
    bench.run()
    waiting(bench)
    for _ in range(3):
        (spare,) = spares(bench)
        os.kill(spare, signal.SIGKILL)
        assert bench.run().status == "ok"
        waiting(bench)
        assert spare not in spares(bench)


def test_the_process_that_waits_knows_arrays_that_came_after_it(bench: AgentBench) -> None:
    assert bench.run().status == "ok"
    waiting(bench)
    (spare,) = spares(bench)
    bench.a = bench.a + 1
    assert bench.run().status == "ok"
    waiting(bench)
    assert spare not in spares(bench)


def test_what_is_forgotten_is_not_kept_by_the_process_that_waits(bench: AgentBench) -> None:
    assert bench.run().status == "ok"
    waiting(bench)
    (spare,) = spares(bench)
    bench.board._send(messages.forget(b"\1" * 32))
    content = bench.board._contents.named(bench.request().arrays[1])
    bench.board._send(messages.forget(content.key))
    until = time.monotonic() + ENDS_S
    while spare in spares(bench):
        assert time.monotonic() < until
        time.sleep(0.02)
    bench.board._contents.all_gone()
    assert bench.run().status == "ok"


def spares(bench: AgentBench) -> set[int]:
    """Processes of the agent's program that one of its kind has started."""
    agent = str(build_agent(bench.target, bench.cache))
    return {p for p in processes(lambda command: agent in command) if agent in command_of(parent_of(p))}


def waiting(bench: AgentBench) -> set[int]:
    """The agents, once each has one process that waits for the next candidate and nothing else is there."""
    agent = str(build_agent(bench.target, bench.cache))
    until = time.monotonic() + ENDS_S
    while True:
        children = spares(bench)
        agents = processes(lambda command: agent in command) - children
        if {parent_of(child) for child in children} == agents and len(children) == len(agents):
            return agents
        assert time.monotonic() < until, f"agents {agents}, children {children}"
        time.sleep(0.02)


def test_a_library_without_the_entry_cannot_be_loaded(bench: AgentBench, tmp_path: Path) -> None:
    (tmp_path / "empty.c").write_text("int nothing;\n")
    library = compile_library(bench.target, tmp_path / "empty.c", tmp_path)
    result = bench.run(library=bench.board.put(library))
    assert result.status == "build_failed"
    assert "undefined symbol: edgetune_call" in result.reason


def test_what_is_no_library_cannot_be_loaded(bench: AgentBench, tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("this is no library")
    result = bench.run(library=bench.board.put(tmp_path / "text.so"))
    assert result.status == "build_failed"


@pytest.mark.parametrize("count", [1000, 2000])
def test_kernels_of_many_parameters(bench: AgentBench, count: int) -> None:
    request = bench.request(0)
    more = count - len(request.arrays)
    bench.board.begin(
        replace(
            request,
            arrays=request.arrays + request.arrays[1:2] * more,
            roles=(*request.roles, *["input"] * more),
            tolerances=(*request.tolerances, *[None] * more),
        )
    )
    assert select.select([bench.board], [], [], 30)[0]
    result = bench.wait()
    if count > 1024:
        assert (result.status, result.reason) == (
            "crashed",
            "the kernel has 2000 parameters: an agent takes at most 1024",
        )
        assert not select.select([bench.board], [], [], 0)[0]
    else:
        assert (result.status, result.reason) == ("ok", "")
    assert bench.run().status == "ok"


def test_a_tolerance_is_kept(bench: AgentBench, tmp_path: Path) -> None:
    request = bench.request()
    off = 2 * bench.a + bench.w
    off[3] += 0.5
    path = tmp_path / "off.npy"
    np.save(path, off)
    arrays = (*request.arrays[:3], bench.board.put(path))
    for tolerance, status in (
        (Tolerance(), "wrong_result"),
        (Tolerance(absolute=0.6), "ok"),
        (Tolerance(relative=1e-6, absolute=0.6, share=1.5 / COUNT), "ok"),
        (Tolerance(relative=1e-6, absolute=0.4, share=0.5), "wrong_result"),
    ):
        result = bench.run(arrays=arrays, tolerances=(None, None, None, tolerance))
        assert result.status == status, (tolerance, result.reason)


@pytest.mark.long
def test_a_candidate_that_kills_the_agent_loses_the_board_and_the_next_goes_on(bench: AgentBench) -> None:
    bench.board.begin(bench.request(17))
    with pytest.raises(BoardLost, match=bench.target.name):
        bench.wait()
    bench.board.recover()
    assert bench.helped()[-1] == "a new agent"
    assert bench.run().status == "ok"


def test_a_hopeless_candidate_is_timed_briefly(bench: AgentBench) -> None:
    result = bench.run(best_ns=1.0)
    assert (result.status, result.stopped) == ("ok", "slow")
    assert 1 <= len(result.samples_ns) <= 3


@pytest.mark.parametrize("name", ["qemu-aarch64", "qemu-armv7"])
def test_counts_of_instructions_repeat_to_the_last_digit(name: str, cache: Path, tmp_path: Path) -> None:
    counts = []
    for turn in range(2):
        folder = tmp_path / str(turn)
        folder.mkdir()
        bench = AgentBench(load_target(name), folder, cache)
        try:
            counts.append(bench.run().samples_ns)
            assert bench.board.facts["clock"] == "instructions"
            assert bench.board.health().keys() == {"page_faults"}
        finally:
            bench.close()
    assert counts[0] == counts[1]
    assert len(set(counts[0])) == 1
    assert COUNT < counts[0][0] < 20 * COUNT


@pytest.mark.long
def test_risc_v_counts_as_well(cache: Path, tmp_path: Path) -> None:
    target = load_target("generic-riscv64").model_copy(update={"emulated": True, "clock": "instructions"})
    bench = AgentBench(target, tmp_path, cache)
    try:
        assert len(set(bench.run().samples_ns)) == 1
        assert bench.run(6).reason == "writes to parameter 3 after its end"
        assert bench.board.facts["machine"] == "riscv64"
    finally:
        bench.close()


@pytest.mark.long
def test_caches_are_swept_when_asked(cache: Path, tmp_path: Path) -> None:
    bench = AgentBench(load_target("host"), tmp_path, cache)
    bench.board._cold_bytes = 1 << 20
    try:
        result = bench.run()
        assert (result.status, result.repeat) == ("ok", 1)
    finally:
        bench.close()
