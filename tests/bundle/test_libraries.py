"""Bundles of shared libraries for CPUs: there and back on this machine and under an emulator, with harm on the way."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner

from edgetune.boards import lock
from edgetune.bundle.export import BundleRequest, export_bundle
from edgetune.bundle.import_results import import_bundle
from edgetune.bundle.kinds import KINDS
from edgetune.bundle.kinds.kind import PackageRules
from edgetune.bundle.kinds.libraries import _Maker
from edgetune.bundle.manifest import RESULTS, read_manifest
from edgetune.bundle.plan import LEAST_ROOM
from edgetune.bundle.running import run_bundle
from edgetune.cli.bundle import command
from edgetune.errors import BoardBusy, BoardUnavailable, BoardUnfit, BundleInvalid, UsageError
from edgetune.events import Event
from edgetune.graph.memory.plan import scratch_limits
from edgetune.pipeline.model_formats import read_model
from edgetune.records import RecordStore
from edgetune.schedule.algorithms.schedule_text import WINOGRAD, algorithm_of
from edgetune.target.target import load_target, with_cpu
from tests.bundle.bundle_sample import compile_runner, runner_sources
from tests.bundle.library_sample import HARMFUL, convolution, export_libraries, model, replace_library
from tests.distribution_sample import edgetune

MISSING = "missing" * 900
"""A symbol that fills more than a line of results."""

EMULATOR = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libraries")
    export_libraries(folder, folder / "sent")
    return folder


@pytest.fixture
def bundle(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole / "sent", tmp_path / "sent"))


def statuses(bundle: Path) -> list[str]:
    return [line.split()[2] for line in (bundle / RESULTS).read_text().splitlines()]


def lines_of(bundle: Path) -> int:
    return (bundle / RESULTS).read_text().count("\n") if (bundle / RESULTS).exists() else 0


def run_there(bundle: Path, *emulator: str) -> subprocess.CompletedProcess[str]:
    """Run the compiled runner of the bundle: a board needs nothing else."""
    return subprocess.run([*emulator, "./runner"], cwd=bundle, capture_output=True, text=True, check=False)


def preload(bundle: Path, stand_in: str) -> str:
    """The environment variable that puts C functions in the place of those of the C library."""
    library = bundle.parent / "stand_in.so"
    command = ["gcc", "-fno-builtin", "-shared", "-fPIC", "-xc", "-", "-o", str(library)]
    subprocess.run(command, input=f"#include <errno.h>\n{stand_in}", text=True, check=True)
    return f"LD_PRELOAD={library}"


@pytest.mark.long
def test_every_library_comes_back_once_however_often_it_is_run_and_imported(bundle: Path, tmp_path: Path) -> None:
    number = len(read_manifest(bundle)[0].candidates)
    assert number > 2
    assert run_there(bundle).returncode == 0
    assert run_bundle(bundle)["results"] == number
    with RecordStore.open(tmp_path / "records.db") as store:
        for imported in (number, 0):
            counts = import_bundle(bundle, store)
            assert (counts.imported, counts.known, counts.refused) == (imported, number - imported, 0)
        rows = store.list()
    assert len(rows) == number
    assert {(row["status"], row["environment"]["trust"]) for row in rows} == {("ok", "C")}


@pytest.mark.long
def test_a_bundle_for_arm_runs_under_an_emulator_which_its_records_tell(tmp_path: Path) -> None:
    export_libraries(tmp_path, tmp_path / "sent", "rpi4", candidates=2)
    with pytest.raises(BoardUnfit, match="the candidates are for aarch64, and this runner was compiled for"):
        run_bundle(tmp_path / "sent")
    done = run_there(tmp_path / "sent", *EMULATOR)
    assert (done.returncode, done.stderr) == (0, "")
    with RecordStore.open(tmp_path / "records.db") as store:
        assert import_bundle(tmp_path / "sent", store).missing == 0
        rows = store.list()
    assert {(row["status"], row["environment"]["trust"]) for row in rows} == {("ok", "D")}
    assert {row["target"] for row in rows} == {"rpi4"}


@pytest.mark.long
def test_each_sample_of_cold_caches_is_one_call_after_a_sweep(tmp_path: Path) -> None:
    """Of kernels so short that a sweep for each call of a long sample takes more than a candidate's time."""
    export_libraries(tmp_path, tmp_path / "sent", candidates=2, caches="cold")
    assert run_there(tmp_path / "sent").returncode == 0
    lines = [line.split() for line in (tmp_path / "sent" / RESULTS).read_text().splitlines()]
    assert {(status, repeats) for _, _, status, repeats, *_ in lines} == {("ok", "1")}
    with RecordStore.open(tmp_path / "records.db") as store:
        assert import_bundle(tmp_path / "sent", store).imported == len(lines) > 2
        assert {row["environment"]["caches"] for row in store.list()} == {"cold"}


def tuned(folder: Path, trials: int) -> dict[str, Any]:
    words = ["--board", "host", "--via", "bundle", "--trials", str(trials), "--db", "r.db", "-o", "out", "--json"]
    done = edgetune(["tune", "small.onnx", *words], cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
def test_a_search_goes_on_with_what_came_back_and_packages_use_it(tmp_path: Path) -> None:
    model(tmp_path)
    found = tuned(tmp_path, 4)
    assert (found["records"], found["measured_kernels"]) == (0, 0)
    assert found["waiting"] == str(tmp_path / "out-rounds/round-1")
    assert run_there(Path(found["waiting"])).returncode == 0
    found = tuned(tmp_path, 8)
    assert (found["records"], found["measured_kernels"], found["rounds"]) == (4, 2, 2)
    names = [one.candidate for i in (1, 2) for one in read_manifest(tmp_path / f"out-rounds/round-{i}")[0].candidates]
    assert len(names) == len(set(names)) > 4
    built = edgetune(["build", "small.onnx", "--board", "host", "--db", "r.db", "-o", "built", "--json"], cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    assert json.loads(built.stdout)["measured_kernels"] == 2


def test_a_library_that_crashes_hangs_or_is_wrong_leaves_the_others_unharmed(bundle: Path, tmp_path: Path) -> None:
    for number, body in enumerate(HARMFUL.values()):
        replace_library(bundle, number, body)
    plan = bundle / "plan.txt"
    text = plan.read_text()
    head, *candidates = re.split("(?m)^(?=candidate )", text)
    hangs = candidates[list(HARMFUL).index("timeout")]
    for part in (head.replace("timeout 20 ", "timeout 1 ") + hangs, text):
        plan.write_text(part)
        assert run_there(bundle).returncode == 0
    found = statuses(bundle)
    assert found[:3] == ["timeout", "wrong_result", "crashed"]
    assert set(found[3:]) == {"ok"}
    with RecordStore.open(tmp_path / "records.db") as store:
        counts = import_bundle(bundle, store)
    assert (counts.imported, counts.refused) == (len(found), 0)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("((volatile char *)buffers[2])[-1] = 0;", "wrong_result"),
        ("((volatile float *)buffers[2])[96] = 0;", "crashed"),
        ("(void)((volatile float *)buffers[0])[64];", "crashed"),
    ],
)
def test_a_library_that_touches_memory_beside_its_buffers_is_found(bundle: Path, body: str, status: str) -> None:
    replace_library(bundle, 0, body)
    assert run_there(bundle).returncode == 0
    assert statuses(bundle)[0] == status


def test_a_file_that_is_no_library_is_a_result(bundle: Path) -> None:
    name = (bundle / "plan.txt").read_text().splitlines()[1].split()[2]
    (bundle / "libraries" / name).write_bytes(b"no library")
    with pytest.raises(BundleInvalid, match="was changed after it was written"):
        run_bundle(bundle)
    assert run_there(bundle).returncode == 0
    assert statuses(bundle)[0] == "crashed"
    assert set(statuses(bundle)[1:]) == {"ok"}


def test_a_cpu_that_lacks_a_feature_of_the_target_is_refused(bundle: Path) -> None:
    plan = bundle / "plan.txt"
    more = "features sve9 hwcap ffffffffffffffff ffffffffffffffff xcr0 0 cpuid 1 1:0:ecx:ffffffff\n"
    plan.write_text(re.sub("features .*\n", more, plan.read_text(), count=1))
    done = run_there(bundle)
    said = "bundle: the candidates need sve9, which this CPU lacks: export a bundle for it\n"
    assert (done.returncode, done.stderr) == (4, said)


@pytest.mark.parametrize(
    ("call", "fault", "status", "sentence"),
    [
        (
            "void *mmap",
            "EPERM",
            3,
            "this machine runs no code from the folder of the bundle (Operation not permitted): ",
        ),
        ("int fork", "EAGAIN", 1, "no process can be started: Resource temporarily unavailable"),
        ("int sched_setaffinity", "EPERM", 3, "a candidate cannot be kept on core "),
    ],
)
def test_a_fault_of_the_machine_is_no_result_of_a_candidate(
    bundle: Path, call: str, fault: str, status: int, sentence: str
) -> None:
    stand_in = f"{call}(void) {{ errno = {fault}; return {'(void *)' if '*' in call else ''}-1; }}"
    done = run_there(bundle, "env", preload(bundle, stand_in))
    assert done.returncode == status
    assert done.stderr.startswith(f"bundle: {sentence}")
    assert lines_of(bundle) == 0
    assert run_there(bundle).returncode == 0
    assert set(statuses(bundle)) == {"ok"}


def test_a_machine_of_more_cores_than_a_set_of_the_c_library_keeps_candidates_on_its_last(bundle: Path) -> None:
    stand_in = """
        int sched_setaffinity(void) { return 0; }
        int sched_getaffinity(int process, unsigned long size, unsigned char *set)
        {
            for (unsigned long i = 0; i < size; i++)
                set[i] = size > 128 && i == 1500 / 8 ? 1 << 1500 % 8 : 0;
            errno = EINVAL;
            return size > 128 ? 0 : -1;
        }"""
    done = run_there(bundle, "env", preload(bundle, stand_in))
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.rpartition(" ")[2] for line in (bundle / RESULTS).read_text().splitlines()} == {"1500"}


def test_a_candidate_without_memory_is_told_and_leaves_the_others_unharmed(bundle: Path) -> None:
    plan = bundle / "plan.txt"
    huge = f"drawn o {1 << 62} 1 0 1 0 1 {1 << 60}:0:1"
    plan.write_text(re.sub("(?m)^drawn .*$", huge, plan.read_text(), count=1))
    done = run_there(bundle)
    assert (done.returncode, done.stderr) == (0, "")
    first = (bundle / RESULTS).read_text().splitlines()[0]
    assert first.split(" ", 2)[2] == "crashed 0 - 0 no memory"
    assert set(statuses(bundle)[1:]) == {"ok"}


def test_no_sample_of_a_library_is_lost_or_counted_twice_where_the_runner_is_killed(
    bundle: Path, tmp_path: Path
) -> None:
    number = len(read_manifest(bundle)[0].candidates)
    replace_library(
        bundle, number - 1, "extern int sleep(unsigned); sleep(3);"
    )  # nobody comes to the end before a kill
    moments = random.Random(1)  # noqa: S311
    with RecordStore.open(tmp_path / "records.db") as store:
        stored = 0
        for kills in range(10):
            with subprocess.Popen(["./runner"], cwd=bundle) as runner:
                while kills == 0 and not lines_of(bundle) and runner.poll() is None:
                    time.sleep(0.001)
                time.sleep(moments.random() * 0.1)
                runner.kill()
            counts = import_bundle(bundle, store)
            assert counts.refused == 0
            stored += counts.imported
            assert kills or 0 < stored < number
        assert run_there(bundle).returncode == 0
        stored += import_bundle(bundle, store).imported
        assert stored == len(store.list()) == number
    lines = (bundle / RESULTS).read_text().splitlines()
    assert len({line.split()[0] for line in lines}) == len(lines) == number


@pytest.mark.long
@pytest.mark.parametrize("winograd", ["f4", "off"])
def test_candidates_keep_to_the_algorithms_that_the_package_allows(
    tmp_path: Path, winograd: Literal["f4", "off"]
) -> None:
    program, rules = read_model(convolution(tmp_path)).program(), PackageRules(winograd)
    export_bundle(program, load_target("host"), tmp_path / "sent", BundleRequest(4, 1, rules=rules), lambda _: None)
    found = {algorithm_of(one.trace) for one in read_manifest(tmp_path / "sent")[0].candidates}
    assert bool(found & set(WINOGRAD)) == (winograd == "f4")


def test_each_thread_of_a_package_has_its_share_of_the_scratch(tmp_path: Path) -> None:
    program, target = read_model(convolution(tmp_path)).program(), with_cpu(load_target("host"))
    one, four = (_Maker(program, target, PackageRules(threads=threads))._limits for threads in (1, 4))
    allowed = {program.kernels[i].workload: limit for i, limit in scratch_limits(program, 4).items()}
    assert four == {workload: limit // 4 for workload, limit in allowed.items()} != one


@pytest.mark.long
def test_a_trust_grade_that_no_bundle_has_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    model(tmp_path)
    words = ["--board", "host", "--via", "bundle", "--trials", "4", "--db", "r.db", "-o", "out", "--min-trust", "B"]
    done = edgetune(["tune", "small.onnx", *words], cwd=tmp_path)
    assert done.returncode == UsageError.exit_code
    assert "times from a bundle never have a better trust grade than C, " in done.stderr
    assert "use --min-trust C instead of B" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["small.onnx"]


@pytest.mark.long
def test_a_bundle_runs_under_the_lock_of_this_machine(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "lock_path", lambda: tmp_path / "timing.lock")
    monkeypatch.setattr(lock, "LOCK_TIMEOUT_S", 0.1)
    with lock.timing_lock():
        done = CliRunner().invoke(command, ["run", str(bundle)])
    assert isinstance(done.exception, BoardBusy)
    assert lines_of(bundle) == 0
    done = CliRunner().invoke(command, ["run", str(bundle)])
    assert done.exit_code == 0, done.output
    assert set(statuses(bundle)) == {"ok"}


@pytest.mark.long
def test_libraries_that_do_not_fit_wait_for_another_round(tmp_path: Path) -> None:
    program, events, most = read_model(model(tmp_path)).program(), list[Event](), LEAST_ROOM + (4 << 10)
    request = BundleRequest(20, 1, most_bytes=most)
    counts = export_bundle(program, load_target("host"), tmp_path / "sent", request, events.append)
    size = sum(path.stat().st_size for path in (tmp_path / "sent").rglob("*") if path.is_file())
    assert counts["bytes"] == size <= most
    assert 0 < int(str(counts["candidates"])) < 20
    assert any("the bundle is full" in str(event.data.get("message")) for event in events)


@pytest.mark.long
def test_two_exports_of_libraries_are_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    export_libraries(tmp_path, tmp_path / "sent")
    for path in sorted(path for path in (whole / "sent").rglob("*") if path.is_file()):
        assert (tmp_path / "sent" / path.relative_to(whole / "sent")).read_bytes() == path.read_bytes(), path


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_both_compilers_take_the_runners_without_a_warning(tmp_path: Path, kind: str, cc: str) -> None:
    compile_runner(runner_sources(tmp_path, kind), tmp_path / "runner", cc=cc)


@pytest.mark.long
def test_the_runner_is_clean_under_sanitizers(bundle: Path, tmp_path: Path) -> None:
    replace_library(bundle, 0, HARMFUL["wrong_result"])
    replace_library(bundle, 1, f"extern void {MISSING}(void); {MISSING}();")
    flags = ("-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    compile_runner(runner_sources(bundle.parent, "libraries"), bundle / "runner", *flags)
    done = run_there(bundle)
    assert (done.returncode, done.stderr) == (0, "")
    assert statuses(bundle) == ["wrong_result", "crashed"] + ["ok"] * (len(statuses(bundle)) - 2)
    with RecordStore.open(tmp_path / "records.db") as store:
        assert import_bundle(bundle, store).refused == 0


def test_a_folder_for_the_runner_that_runs_no_program_is_told(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where TMPDIR is mounted noexec: here the compiler leaves a program that nobody may run."""
    compiler = tmp_path / "bin" / "cc"
    compiler.parent.mkdir()
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: >"$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}:/usr/bin:/bin")
    with pytest.raises(BoardUnavailable, match=r"no program runs from /.*: set TMPDIR to a folder on a file system"):
        run_bundle(bundle)
    assert not (bundle / RESULTS).exists()
