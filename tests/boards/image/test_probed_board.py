"""Boards behind a debug probe: a stub that speaks like the tools of probes runs the images under QEMU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from edgetune.boards.image.board import ImageBoard
from edgetune.boards.image.probe_lock import probe_lock
from edgetune.boards.transports.probe import PROBE
from edgetune.errors import BoardBusy, BoardLost, BoardUnfit, ToolchainMissing
from edgetune.resources import targets_dir
from edgetune.target.identity import target_fingerprint
from edgetune.target.target import Probe, Target, load_target
from tests.backends.test_c_bare_metal import model
from tests.boards.image.image_bench import RIGHT, ImageBench, image_board
from tests.distribution_sample import edgetune

BOARD = "mps2-an386"
TOOLS = ("probe-rs", "pyocd", "openocd")
HANGS = 'for (;;) __asm__ volatile("");'
STUB = (sys.executable, "-m", "tests.boards.image.probe_stub")


def command(tool: str, machine: str, fault: Path) -> tuple[str, ...]:
    """The command of a probe, for which the stub stands in; the file `fault` names what goes wrong."""
    return (*STUB, tool, machine, "{image}", "--fault", str(fault))


def probed(name: str, probe: Probe, **changes: object) -> Target:
    """An emulated board as a real one behind a probe."""
    update = {"reach": "probe", "emulated": False, "clock": "time", "emulator": (), "debug_probe": probe}
    return load_target(name).model_copy(update={**update, **changes})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def fault(tmp_path: Path) -> Path:
    return tmp_path / "fault"


@pytest.fixture
def bench(tmp_path: Path, cache: Path, fault: Path) -> Iterator[ImageBench]:
    target = probed(BOARD, Probe(command=command("probe-rs", BOARD, fault)))
    bench = ImageBench.of(target, tmp_path, cache, PROBE)
    yield bench
    bench.board.close()


@pytest.mark.parametrize(
    ("tool", "name", "machine"),
    [
        *((tool, BOARD, BOARD) for tool in TOOLS),
        ("pyocd", "cortex-m0plus", "mps2-an385"),
        ("openocd", "mps2-an505", "mps2-an505"),
        ("openocd", "mps3-an547", "mps3-an547"),
    ],
)
def test_cycles_become_times_at_the_clock(
    tool: str, name: str, machine: str, cache: Path, tmp_path: Path, fault: Path
) -> None:
    """QEMU takes a nanosecond for an instruction at any clock, so the time is the count of instructions."""
    target = probed(name, Probe(command=command(tool, machine, fault)))
    bench = ImageBench.of(target, tmp_path, cache, PROBE)
    emulated = tmp_path / "emulated"
    emulated.mkdir()
    counting = ImageBench.of(load_target(name), emulated, cache)
    try:
        result, wrong = bench.run(RIGHT), bench.run(f"{RIGHT} y[3] += 1.0f;")
        counted = counting.run(RIGHT)
    finally:
        bench.board.close()
        counting.board.close()
    assert (result.status, result.reason, result.stopped) == ("ok", "", "budget")
    assert len(result.samples_ns) == 5
    assert target.clock_mhz is not None
    tick = 1000 / target.clock_mhz
    assert max(result.samples_ns) - min(result.samples_ns) <= 2 * tick
    assert result.samples_ns[0] == pytest.approx(counted.samples_ns[0], abs=4 * tick)
    assert (wrong.status, wrong.samples_ns) == ("wrong_result", ())
    assert (bench.board.facts["emulated"], bench.board.facts["clock"]) == (0, "time")
    assert bench.board.facts["clock_mhz"] == target.clock_mhz
    assert bench.board.round_trip_s > 0


def test_a_tool_that_goes_on_is_interrupted_so_that_it_releases_the_probe(
    cache: Path, tmp_path: Path, fault: Path
) -> None:
    released = tmp_path / "released"
    words = (*command("openocd", BOARD, fault), "--released", str(released))
    bench = ImageBench.of(probed(BOARD, Probe(command=words)), tmp_path, cache, PROBE)
    bench.board.close()
    assert released.read_text() == "1"


def test_a_candidate_that_hangs_is_not_the_boards_fault(bench: ImageBench) -> None:
    result = bench.run(HANGS, deadline_s=0.5)
    assert result.status == "timeout"
    assert result.reason.startswith("still in phase 'time' after ")
    assert bench.run(RIGHT).status == "ok"


def test_a_fault_of_the_image_is_decoded(bench: ImageBench) -> None:
    result = bench.run("y[0] = *(volatile float *)0x60000000u;")
    assert result.status == "crashed"
    assert result.reason.startswith("HardFault: an invalid address is accessed (instruction at 0x")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent", "ended with status 1 without a report of the image (Error: No connected probes were found.)"),
        ("stale", "ended with status 0 without a report of the image"),
    ],
)
def test_a_probe_that_fails_blames_no_candidate(bench: ImageBench, fault: Path, name: str, words: str) -> None:
    request = bench.request(RIGHT)
    fault.write_text(name)
    with pytest.raises(BoardLost) as lost:
        bench.wait_for(request)
    assert words in lost.value.message
    with pytest.raises(BoardLost):
        bench.board.recover()
    fault.unlink()
    bench.board.recover()
    assert bench.wait_for(request).status == "ok"


def test_a_probe_without_end_is_ended(bench: ImageBench, fault: Path) -> None:
    request = bench.request(RIGHT)
    fault.write_text("endless")
    with pytest.raises(BoardLost, match=r"does not run an image that does nothing .* prints without end"):
        bench.wait_for(request)
    with pytest.raises(BoardLost, match="does not run an image that does nothing"):
        bench.board.recover()


def test_a_probe_that_says_nothing_blames_no_candidate(bench: ImageBench, fault: Path) -> None:
    """What is silent after a candidate is asked to run an image that does nothing."""
    request = replace(bench.request(RIGHT), deadline_s=0.5)
    fault.write_text("silent")
    with pytest.raises(BoardLost, match="see that it is connected and has power"):
        bench.wait_for(request)


def test_a_tool_that_ends_when_an_image_crashes_blames_the_candidate(bench: ImageBench, fault: Path) -> None:
    """As probe-rs does where it catches a fault itself: without a report, but the board goes on."""
    request = bench.request("y[0] = *(volatile float *)0x60000000u;")
    fault.write_text("catches")
    result = bench.wait_for(request)
    assert result.status == "crashed"
    assert "ended with status 1 without a report of the image" in result.reason


@pytest.mark.long
def test_interrupts_that_are_off_do_not_stop_the_clock(cache: Path, tmp_path: Path, fault: Path) -> None:
    probe = Probe(command=command("pyocd", BOARD, fault), start='__asm__ volatile("cpsid i");')
    bench = ImageBench.of(probed(BOARD, probe), tmp_path, cache, PROBE)
    try:
        result = bench.run(f"for (volatile int i = 0; i < 120000000; i++) {{ }} {RIGHT}", deadline_s=60.0)
    finally:
        bench.board.close()
    assert result.status == "ok"
    assert len(result.samples_ns) == 1
    assert result.samples_ns[0] > 600e6


def test_a_board_that_cannot_be_reserved_leaves_its_probe_to_others(
    bench: ImageBench, cache: Path, fault: Path
) -> None:
    probe = bench.target.debug_probe
    assert probe is not None
    mine, other = probe_lock(probe), probe_lock(probe, timeout_s=0.1)
    board = ImageBoard(bench.target, bench.board._make_runner, bench.board._host, cache, lock=mine)
    fault.write_text("absent")
    with pytest.raises(BoardUnfit):
        board.reserve()
    other.acquire()
    other.close()
    fault.unlink()
    board.recover()
    assert mine.held
    board.close()


def test_records_of_a_probe_belong_to_a_part_its_clock_and_its_start() -> None:
    target = probed(BOARD, Probe(command=("pyocd", "{image}")))
    others = [
        target.model_copy(update=update)
        for update in (
            {"name": "another"},
            {"clock_mhz": 168},
            {"debug_probe": Probe(command=("pyocd", "{image}"), start="(void)0;")},
        )
    ]
    assert len({target_fingerprint(one) for one in (target, *others, load_target(BOARD))}) == 5
    faster = target.model_copy(update={"debug_probe": Probe(command=("pyocd", "-f", "10m", "{image}"))})
    assert target_fingerprint(faster) == target_fingerprint(target)


def test_the_file_of_an_image_holds_nothing_before_its_origin(bench: ImageBench, tmp_path: Path) -> None:
    """A probe writes what lies in the segments: headers before the origin would go over a boot loader."""
    kept = tmp_path / "kept.elf"
    words = ("sh", "-c", f'cp "$0" {kept}; exec "$@"')
    probe = Probe(command=(*words, "{image}", *command("pyocd", BOARD, tmp_path / "none")))
    space = bench.target.memory_map
    assert space is not None
    flash = space.flash.model_copy(update={"origin": 0x100, "bytes": 1 << 20})
    target = bench.target.model_copy(
        update={"debug_probe": probe, "memory_map": space.model_copy(update={"flash": flash})}
    )
    board = image_board(target, tmp_path, tmp_path, PROBE)
    with pytest.raises(BoardUnfit):  # the emulator begins at address 0
        board.reserve()
    board.close()
    told = subprocess.run(["arm-none-eabi-readelf", "-lW", kept], capture_output=True, text=True, check=True).stdout
    loads = [line.split() for line in told.splitlines() if line.split()[:1] == ["LOAD"]]
    assert min(int(words[3], 16) for words in loads) == 0x100


def test_what_a_board_does_first_is_compiled_into_its_images(cache: Path, tmp_path: Path, fault: Path) -> None:
    never = Probe(command=command("pyocd", BOARD, fault), start="*(volatile uint32_t *)0x60000000u = 1;")
    board = image_board(probed(BOARD, never), tmp_path, cache, PROBE)
    with pytest.raises(BoardUnfit, match="HardFault: an invalid address is accessed"):
        board.reserve()
    board.close()


def test_statements_that_do_not_compile_are_named(cache: Path, tmp_path: Path, fault: Path) -> None:
    wrong = Probe(command=command("pyocd", BOARD, fault), start="clock = 120;")
    board = image_board(probed(BOARD, wrong), tmp_path, cache, PROBE)
    with pytest.raises(ToolchainMissing, match=r"(?s)`debug_probe.start` of the target file .*'clock' undeclared"):
        board.reserve()
    board.close()


def test_one_run_at_a_time_uses_a_probe(bench: ImageBench, cache: Path) -> None:
    probe = bench.target.debug_probe
    assert probe is not None
    mine, other = probe_lock(probe), probe_lock(probe, timeout_s=0.1)
    mine.acquire()
    board = ImageBoard(bench.target, bench.board._make_runner, bench.board._host, cache, lock=other)
    with pytest.raises(BoardBusy):
        board.reserve()
    mine.release()
    board.reserve()
    board.release()
    mine.acquire()
    mine.close()
    board.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"debug_probe": None}, "needs 'debug_probe', whose command runs its images"),
        ({"memory_map": None}, "needs 'memory_map', by which images are linked, with 'reach: probe'"),
        ({"clock_mhz": None}, "needs 'clock_mhz', by which cycles become times"),
        ({"clock": "instructions"}, "is 'instructions', but 'reach: probe' measures time"),
        ({"emulated": True}, "is true, but 'reach: probe' is for real boards"),
    ],
)
def test_what_a_target_file_lacks_is_told(changes: dict[str, object], words: str) -> None:
    target = probed(BOARD, Probe(command=("pyocd", "{image}")))
    assert PROBE.target_fault(target) is None
    found = PROBE.target_fault(target.model_copy(update=changes))
    assert found is not None
    assert words in found.why


def test_a_command_without_the_image_is_refused() -> None:
    with pytest.raises(ValueError, match="which stands for the file of the image"):
        Probe(command=("pyocd", "run"))


@pytest.mark.parametrize(
    ("words", "prefix"),
    [
        (("pyocd", "run", "{image}"), "pyocd run"),
        (
            ("openocd", "-c", "program {image} verify"),
            """sh -c 'openocd -c '"'"'program '"'"'"$1"'"'"' verify'"'"'' probe""",
        ),
    ],
)
def test_a_command_is_a_prefix_for_a_shell(words: tuple[str, ...], prefix: str) -> None:
    assert Probe(command=words).prefix == prefix


def test_a_model_is_tuned_on_a_board_behind_a_probe_and_its_package_verified_there(tmp_path: Path, fault: Path) -> None:
    text = yaml.safe_load((targets_dir() / f"{BOARD}.yaml").read_text())
    for key in ("emulated", "clock", "emulator", "emulator_package"):
        del text[key]
    text |= {"name": "my-part", "reach": "probe"}
    text["debug_probe"] = {"command": list(command("probe-rs", BOARD, fault)), "start": "(void)0;"}
    (tmp_path / "my-part.yaml").write_text(yaml.safe_dump(text))
    model(tmp_path / "small.onnx")
    words = ["tune", "small.onnx", "--board", "my-part.yaml", "--trials", "4", "--db", "r.db", "-o", "small", "--json"]
    done = edgetune(words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["verified"]["passed"]
    assert told["verified"]["ran_on"].startswith("board my-part, by ")
    benched = edgetune(["bench", "small", "--json"], cwd=tmp_path)
    assert benched.returncode == 0, benched.stderr
    report = json.loads(benched.stdout)
    assert (report["emulated"], report["median_us"] > 0) == (False, True)
    fault.write_text("absent")
    without = edgetune(["build", "small.onnx", "--board", "my-part.yaml", "--db", "r.db", "-o", "small"], cwd=tmp_path)
    assert without.returncode == 0, without.stderr
    assert "the self-test of the package does not run here" in without.stderr
    own = tmp_path / "config/edgetune/targets"
    own.mkdir(parents=True)
    (own / "my-part.yaml").write_text((tmp_path / "my-part.yaml").read_text())
    listed = edgetune(["boards", "list"], cwd=tmp_path, environment={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    row = next(line for line in listed.stdout.splitlines() if line.startswith("my-part"))
    assert "cycles, by a debug probe" in row
    assert "on the board" in row
    checked = edgetune(["doctor", "--board", "my-part.yaml", "--json"], cwd=tmp_path)
    assert {one["check"]: one["ok"] for one in json.loads(checked.stdout)}["probe of my-part"]
    refused = edgetune(["verify", "small"], cwd=tmp_path)
    assert refused.returncode == BoardLost.exit_code
    assert "No connected probes were found" in refused.stderr
