"""Candidates that do all they should not: each is a recorded failure, and the next is measured as if nothing was."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from edgetune.backends.c_linux import BACKEND
from edgetune.boards.opening import boards_of
from edgetune.boards.options import MeasuringOptions
from edgetune.config.boards_file import ResolvedBoard
from edgetune.events import Event
from edgetune.measure.build_worker import BuildPolicy
from edgetune.measure.jobs import BuildJob
from edgetune.measure.measurement import Measurement
from edgetune.measure.session import MeasureSession
from edgetune.pipeline.boards import accesses
from edgetune.target.target import load_target

STDIO = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <string.h>\n"


# A noisy machine may refuse a set of samples; that is no fault of the candidate.
FINE = {"ok", "refused_noisy"}


@pytest.fixture(scope="module")
def steps() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1]))
        yield importlib.import_module("measure_steps")


@pytest.fixture(scope="module")
def session(steps: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasureSession]:
    host, lock = load_target("host"), tmp_path_factory.mktemp("lock") / "timing.lock"
    with MeasureSession(
        host,
        boards_of(accesses(ResolvedBoard(host)), lock_file=lock),
        BACKEND,
        building=BuildPolicy("measure_steps:make_source", "measure_steps:make_case", compile_timeout_s=5.0),
        measuring=MeasuringOptions(deadline_s=4.0, memory_bytes=256 << 20),
    ) as session:
        assert session.prepare([steps.spec(), steps.spec("gaps"), steps.spec("gaps of integers")]) == {}
        yield session


def one(session: MeasureSession, trace: str) -> Measurement:
    (measured,) = session.measure([BuildJob("job", "k", trace)])
    return measured


@pytest.mark.parametrize("key", ["gaps", "gaps of integers"])
def test_who_writes_into_the_gaps_of_an_output_is_wrong(session: MeasureSession, steps: ModuleType, key: str) -> None:
    alone = steps.trace(steps.GOOD.replace("++i", "i += 2"))
    (measured,) = session.measure([BuildJob("job", key, alone)])
    assert measured.status in FINE, measured.reason
    (measured,) = session.measure([BuildJob("job", key, steps.trace(steps.GOOD + "/* and gaps */"))])
    assert (measured.status, "output 2 differs" in measured.reason) == ("wrong_result", True)


def test_a_good_candidate_is_timed(session: MeasureSession, steps: ModuleType) -> None:
    measured = one(session, steps.trace())
    assert measured.status in FINE, measured.reason
    assert measured.summary is not None
    assert 10 < measured.summary.median < 1e6
    assert measured.summary.low <= measured.summary.median <= measured.summary.high
    assert len(measured.samples_ns) >= 8
    assert measured.error_relative < 1e-6
    assert measured.code_bytes > 0
    assert {"lower", "emit", "compile", "queue", "load", "check", "time"} <= set(measured.seconds)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("*(volatile int *)8 = 1;", "crashed", "SIGSEGV in phase 'check'"),
        ("abort();", "crashed", "SIGABRT"),
        ("exit(0);", "crashed", "exit code 0 in phase 'check'"),
        ("for (volatile int i = 1; i;) { }", "timeout", "still in phase 'check' after 4 s"),
        ("for (;;) memset(malloc(1 << 20), 1, 1 << 20);", "crashed", "SIGSEGV"),
        ("for (int i = 0; i < 1000; ++i) out[i] = 2.01f * a[i] + w[i];", "wrong_result", "output 2 differs"),
        ("for (int i = 0; i < 999; ++i) out[i] = 2.0f * a[i] + w[i];", "wrong_result", "inf"),
        ("for (int i = 0; i < 1001; ++i) out[i] = 2.0f * a[i % 1000] + w[i % 1000];", "wrong_result", "after its end"),
        ("for (int i = -1; i < 1000; ++i) out[i] = i < 0 ? 3.0f : 2.0f * a[i] + w[i];", "wrong_result", "before its"),
        ("for (int i = 0; i < 1100; ++i) out[i] = 0;", "crashed", "SIGSEGV"),
        ("for (int i = 0; i < 1000; ++i) out[i] = 2.0f * a[i] + w[i + 50];", "crashed", "SIGSEGV"),
        ("((float *)a)[0] = 1.0f;", "crashed", "SIGSEGV"),
    ],
)
def test_a_bad_candidate_is_told_apart(
    session: MeasureSession, steps: ModuleType, body: str, status: str, words: str
) -> None:
    measured = one(session, steps.trace(body, globals=STDIO))
    assert (measured.status, measured.summary) == (status, None), measured.reason
    assert words in measured.reason


def test_a_result_that_is_right_only_once_is_wrong(session: MeasureSession, steps: ModuleType) -> None:
    body = "static int n; for (int i = 0; i < 1000; ++i) out[i] = n ? 0.0f : 2.0f * a[i] + w[i]; n = 1;"
    measured = one(session, steps.trace(body))
    assert measured.status == "wrong_result"
    assert measured.reason.startswith("in call 2: output 2 differs")


def test_accumulating_into_an_uncleared_output_is_wrong(session: MeasureSession, steps: ModuleType) -> None:
    body = "for (int i = 0; i < 1000; ++i) out[i] += 2.0f * a[i] + w[i];"
    assert one(session, steps.trace(body)).status == "wrong_result"


def test_rubbish_on_every_descriptor_does_no_harm(session: MeasureSession, steps: ModuleType) -> None:
    body = 'printf("rubbish"); fflush(NULL); for (int d = 0; d < 64; ++d) (void)!write(d, "rubbish", 7);' + steps.GOOD
    measured = one(session, steps.trace(body, globals=STDIO))
    assert measured.status in FINE, measured.reason


@pytest.mark.parametrize("copy", ["", "if (!p) { setsid(); for (;;) pause(); }"])
def test_a_candidate_that_forks_leaves_nothing_behind(session: MeasureSession, steps: ModuleType, copy: str) -> None:
    before = children_of(os.getpid())
    measured = one(session, steps.trace(f"int p = fork(); (void)p; {copy} {steps.GOOD}", globals=STDIO))
    assert (measured.status, measured.reason) == ("crashed", "the kernel started a process")
    assert children_of(os.getpid()) <= before


def test_a_candidate_that_forks_later_is_found_out_as_well(session: MeasureSession, steps: ModuleType) -> None:
    before = children_of(os.getpid())
    measured = one(session, steps.trace(f"static int n; if (n++ == 1) fork(); {steps.GOOD}", globals=STDIO))
    assert (measured.status, measured.reason) == ("crashed", "the kernel started a process")
    assert children_of(os.getpid()) <= before


@pytest.mark.long
def test_a_candidate_that_kills_the_runner_is_blamed(session: MeasureSession, steps: ModuleType) -> None:
    headers = STDIO + "#include <signal.h>\n"
    measured = one(session, steps.trace("kill(getppid(), SIGKILL); sleep(1);", globals=headers))
    assert measured.status == "crashed"
    assert "SIGKILL" in measured.reason
    assert one(session, steps.trace(steps.GOOD + "/* after the runner */")).status in FINE


def test_a_time_that_no_core_can_reach_is_refused(session: MeasureSession, steps: ModuleType) -> None:
    measured = one(session, steps.trace(steps.GOOD + "/* fast */", least_cycles=1e9))
    assert (measured.status, measured.summary) == ("wrong_result", None)
    assert measured.reason.startswith("a call took ")
    assert measured.reason.endswith("so not every call computed")
    measured = one(session, steps.trace(steps.GOOD + "/* as fast as any */", least_cycles=3 * 4000 / 256))
    assert measured.status in FINE, measured.reason


def test_scratch_is_given_and_fenced(session: MeasureSession, steps: ModuleType) -> None:
    fill = "for (int i = 0; i < {}; ++i) scratch[i] = 1; "
    assert one(session, steps.trace(fill.format(512) + steps.GOOD, scratch=512)).status in FINE
    measured = one(session, steps.trace(fill.format(600) + steps.GOOD, scratch=512))
    assert measured.status == "crashed"
    assert one(session, steps.trace(steps.GOOD + "/* much */", scratch=5000)).status == "over_scratch"


def test_packed_weights_reach_the_candidate(session: MeasureSession, steps: ModuleType) -> None:
    body = "for (int i = 0; i < 1000; ++i) out[i] = 2.0f * a[i] + w[999 - i];"
    measured = one(session, steps.trace(body, pack=1))
    assert measured.status in FINE, measured.reason


def test_the_same_text_is_built_once(session: MeasureSession, steps: ModuleType) -> None:
    text = steps.trace(steps.GOOD + " /* twin */")
    first, second = session.measure([BuildJob("a", "k", text), BuildJob("b", "k", text)])
    assert sorted(m.status == "duplicate" for m in (first, second)) == [False, True]
    assert {first.status, second.status} <= FINE | {"duplicate"}
    assert first.candidate_id == second.candidate_id


@pytest.mark.long
@pytest.mark.parametrize(
    ("trace", "status", "words"),
    [
        ({"lowering": "raise"}, "lower_failed", "makes no sense"),
        ({"lowering": "die"}, "lower_failed", "SIGSEGV"),
        ({"lowering": "hang"}, "timeout", "lower: stopped after"),
        ({"body": "this is not C"}, "build_failed", "error"),
        ({"body": "missing();", "globals": "void missing(void);"}, "build_failed", "undefined reference to `missing'"),
    ],
)
def test_a_candidate_that_cannot_be_built(
    session: MeasureSession, steps: ModuleType, trace: dict[str, str], status: str, words: str
) -> None:
    measured = one(session, steps.trace(**trace))
    assert (measured.status, words in measured.reason) == (status, True), measured.reason
    assert one(session, steps.trace(f"{steps.GOOD} /* after {trace} */")).status in FINE


def test_a_known_candidate_can_be_timed_again(session: MeasureSession, steps: ModuleType) -> None:
    text = steps.trace(steps.GOOD + " /* again */")
    assert one(session, text).status in FINE
    assert one(session, text).status == "duplicate"
    (again,) = session.measure([BuildJob("again", "k", text, again=True)])
    assert again.status in FINE


@pytest.mark.long
def test_a_compiler_that_takes_too_long_is_stopped(session: MeasureSession, steps: ModuleType) -> None:
    # Each macro doubles the last: 2**24 additions.
    lines = ["#define M0 +1"] + [f"#define M{n} M{n - 1} M{n - 1}" for n in range(1, 25)]
    measured = one(session, steps.trace("out[0] = (float)(0 M24);", globals="\n".join(lines)))
    assert measured.status in {"timeout", "build_failed"}, measured.reason


@pytest.mark.long
def test_events_tell_a_lost_worker(steps: ModuleType, tmp_path: Path) -> None:
    events: list[Event] = []
    host = load_target("host")
    with MeasureSession(
        host,
        boards_of(accesses(ResolvedBoard(host)), lock_file=tmp_path / "lock"),
        BACKEND,
        building=BuildPolicy("measure_steps:make_source", "measure_steps:make_case"),
        on_event=events.append,
    ) as session:
        failures = session.prepare([steps.spec("hopeless"), steps.spec("deadly"), steps.spec()])
        assert failures["hopeless"] == "no reference for this one"
        assert "SIGFPE" in failures["deadly"]
        (measured,) = session.measure([BuildJob("1", "deadly", steps.trace())])
        assert measured.status == "reference_failed"
    assert any("build worker ended" in str(event.data.get("message")) for event in events)


def children_of(parent: int) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.add(int(entry.name))
    return found
