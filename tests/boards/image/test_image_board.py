"""Candidates as images under the system emulators of all Cortex-M targets: right ones, wrong ones, and what harms."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetune.boards.protocol import PART, gap_fill
from edgetune.boards.transports.image import IMAGE
from edgetune.errors import BoardLost, BoardUnfit, ToolchainMissing
from edgetune.graph.accuracy import Tolerance
from edgetune.target.target import load_target
from tests.boards.agent_bench import processes
from tests.boards.image.image_bench import LENGTH, RIGHT, ImageBench, image_board

BOARDS = ("cortex-m0plus", "mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547")
BOARD = "mps2-an386"

READS_NOWHERE = "y[0] = *(volatile float *)0x60000000u;"
FLUSHES_TO_ZERO = (
    'uint32_t mode; __asm__ volatile("vmrs %0, fpscr" : "=r"(mode)); '
    '__asm__ volatile("vmsr fpscr, %0" : : "r"(mode | 1u << 24));'
)
DEEP = (
    "volatile uint8_t deep[3800]; for (int i = 0; i < 3800; i++) deep[i] = 1; static int depth; "
    "void (*volatile again)(const float *, const int8_t *, float *, uint8_t *) = kernel; "
    f"if (depth++ < 6) again(a, w, y, s); {RIGHT}"
)
HANGS = 'for (;;) __asm__ volatile("");'
FORGED = "edgetune: 00000000 00000001 00000000 00000000 00000000 00000000 00000000"


def semihosting(call: int, argument: str) -> str:
    """C text that asks the emulator for a service."""
    registers = f'register int r0 __asm__("r0") = {call}; register int r1 __asm__("r1") = (int)({argument});'
    return f'{{ {registers} __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory"); }}'


def prints(line: str) -> str:
    """C text that prints a line."""
    return semihosting(4, f'"{line}\\n"')


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def bench(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageBench]:
    bench = ImageBench.of(load_target(BOARD), tmp_path_factory.mktemp("bench"), cache)
    yield bench
    bench.board.close()


@pytest.mark.parametrize("name", BOARDS)
def test_a_right_candidate_is_counted_alike_each_time(name: str, cache: Path, tmp_path: Path) -> None:
    bench = ImageBench.of(load_target(name), tmp_path, cache)
    try:
        request = bench.request(RIGHT)
        first, second = (bench.wait_for(request) for _ in range(2))
        fault = bench.run("*(volatile uint32_t *)0xF0000000u = 1;")
        undefined = bench.run('__asm__ volatile("udf #1");')
        deep = bench.run(DEEP)
    finally:
        bench.board.close()
    assert (first.status, first.reason, first.error_relative) == ("ok", "", 0.0)
    assert (first.repeat, first.stopped, len(first.samples_ns)) == (1, "count", 1)
    assert first.samples_ns[0] >= 4 * LENGTH
    assert first.samples_ns == second.samples_ns
    assert bench.board.facts["clock"] == "instructions"
    assert str(bench.board.facts["emulator"]).startswith("QEMU emulator version")
    assert (fault.status, undefined.status) == ("crashed", "crashed")
    assert fault.reason.startswith("HardFault")
    assert undefined.reason.startswith("HardFault")
    assert (deep.status, deep.reason) == ("crashed", "takes more stack than there is")
    assert not list(tmp_path.glob("images-*"))


@pytest.mark.parametrize("turns", [10, 1000, 123456])
def test_a_loop_of_known_length_has_its_count(bench: ImageBench, turns: int) -> None:
    """Two instructions a turn; the same candidate without the loop tells what is around it."""
    count = f"movw r3, #{turns & 0xFFFF}\\n\\tmovt r3, #{turns >> 16}"
    loop = f'__asm__ volatile("{count}\\n1:\\tsubs r3, #1\\n\\tbne 1b" : : : "r3", "cc");'
    with_loop = bench.run(f"{loop} {RIGHT}")
    without = bench.run(RIGHT)
    assert with_loop.samples_ns[0] - without.samples_ns[0] == 2 + 2 * turns


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (f"{RIGHT} y[3] += 1.0f;", "wrong_result", "output 2 differs from the reference by 1 ("),
        ("", "wrong_result", "output 2 differs from the reference by inf"),
        (f"static int calls; {RIGHT} if (calls++) y[3] += 1.0f;", "wrong_result", "in call 2: output 2 differs"),
        (f"{RIGHT} y[-1] = 0;", "wrong_result", "writes to parameter 2 before its start"),
        (f"{RIGHT} y[{LENGTH}] = 0;", "wrong_result", "writes to parameter 2 after its end"),
        (f"{RIGHT} s[32] = 0;", "wrong_result", "writes to scratch after its end"),
        (f"{RIGHT} ((float *)a)[5] = 0;", "wrong_result", "changes parameter 0, which is not an output"),
        (f"{RIGHT} ((int8_t *)w)[5] ^= 1;", "wrong_result", "changes parameter 1, which is not an output"),
        (f"{RIGHT} {FLUSHES_TO_ZERO}", "wrong_result", "leaves the mode of floating point changed"),
        (READS_NOWHERE, "crashed", "HardFault: an invalid address is accessed (instruction at 0x"),
        (READS_NOWHERE, "crashed", ", address 0x60000000)"),
        ('__asm__ volatile("udf #1");', "crashed", "HardFault: an undefined instruction (instruction at 0x"),
        ("((void (*)(void))0x1000u)();", "crashed", "HardFault: a jump to an address whose lowest bit is 0"),
        ('__asm__ volatile("svc #0");', "crashed", "SVCall"),
        (semihosting(0x18, "0x20023"), "crashed", "its image ended the emulator with status 1"),
        (f"{prints(FORGED)} {RIGHT}", "crashed", "its image printed something else than its report"),
        (f"for (;;) {{ {prints('flood flood')} }}", "crashed", "its image prints without end"),
    ],
)
def test_a_bad_candidate_is_told_apart(bench: ImageBench, body: str, status: str, words: str) -> None:
    result = bench.run(body)
    assert (result.status, words in result.reason) == (status, True), result.reason
    assert result.reason.isprintable()
    assert result.samples_ns == ()


def test_marks_of_a_candidate_give_it_no_count(bench: ImageBench) -> None:
    """The emulator's plugin wrote other regions than those of the harness."""
    result = bench.run(f'__asm__ volatile("mov r9, r9\\n\\tmov r10, r10"); {RIGHT}')
    assert result.status == "crashed"
    assert "regions instead of 2" in result.reason


def test_a_candidate_that_hangs_is_ended_at_its_deadline(bench: ImageBench) -> None:
    began = time.monotonic()
    result = bench.run(HANGS, deadline_s=1.0)
    assert (result.status, result.reason) == ("timeout", "still in phase 'time' after 1 s")
    assert 0.9 < time.monotonic() - began < 5
    assert bench.run(RIGHT).status == "ok"


def test_gaps_of_an_output_must_stay(bench: ImageBench) -> None:
    fill = np.frombuffer(bytes([gap_fill("float32")] * 4), np.float32)[0]
    a, w = np.load(bench.folder / "a.npy"), np.load(bench.folder / "w.npy")
    part = np.where(np.arange(LENGTH) % 2 == 0, a * w, fill).astype(np.float32)
    roles = ("input", "constant", PART)
    even = RIGHT.replace("i++", "i += 2")
    assert bench.wait_for(bench.with_arrays(even, (a, w, part), roles)).status == "ok"
    whole = bench.wait_for(bench.with_arrays(RIGHT, (a, w, part), roles))
    assert (whole.status, "output 2 differs" in whole.reason) == ("wrong_result", True)


def test_a_tolerance_is_that_of_the_request(bench: ImageBench) -> None:
    request = bench.request(f"{RIGHT} y[3] += 0.5f;")
    assert bench.wait_for(request).status == "wrong_result"
    wide = replace(request, tolerances=(None, None, Tolerance(absolute=0.6)))
    result = bench.wait_for(wide)
    assert result.status == "ok"
    assert 0 < result.error_relative < 0.1


@pytest.mark.parametrize(("role", "region"), [("constant", "flash"), ("input", "flash"), ("output", "flash")])
def test_arrays_that_do_not_fit_are_told_by_how_much(bench: ImageBench, role: str, region: str) -> None:
    arrays = (np.zeros(5 << 20, np.int8), np.load(bench.folder / "w.npy"), np.load(bench.folder / "y.npy"))
    result = bench.wait_for(bench.with_arrays(RIGHT, arrays, (role, "constant", "output")))
    assert result.status == "crashed"
    assert f"bytes more {region} than board '{BOARD}' has (4.0 MiB)" in result.reason
    assert str(1 << 20)[:3] in result.reason


def test_what_the_linker_adds_is_told_as_well(bench: ImageBench) -> None:
    """The scratch fits RAM by itself, but not beside the stack and the other buffers."""
    request = replace(bench.request(RIGHT), scratch_bytes=(4 << 20) - 13000)
    result = bench.wait_for(request)
    assert result.status == "crashed"
    assert "bytes more RAM than board 'mps2-an386' has (4.0 MiB)" in result.reason


def test_closing_ends_a_candidate_that_hangs(cache: Path, tmp_path: Path) -> None:
    bench = ImageBench.of(load_target(BOARD), tmp_path, cache)
    bench.board.begin(replace(bench.request(HANGS), deadline_s=60.0))
    time.sleep(0.5)
    assert processes(lambda words: str(tmp_path) in words)
    began = time.monotonic()
    bench.board.close()
    assert time.monotonic() - began < 5
    assert not processes(lambda words: str(tmp_path) in words)
    assert not list(tmp_path.glob("images-*"))
    bench.board.close()
    with pytest.raises(BoardLost, match="was closed"):
        bench.board.reserve()


def test_closing_ends_another_thread_that_waits_for_a_result(cache: Path, tmp_path: Path) -> None:
    bench = ImageBench.of(load_target(BOARD), tmp_path, cache)
    bench.board.begin(replace(bench.request(HANGS), deadline_s=60.0))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bench.board.collect, 60.0)
        time.sleep(0.5)
        bench.board.close()
        with pytest.raises(BoardLost, match="was closed"):
            waiting.result(5)


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ({"emulator": ()}, "needs 'emulator', the command that runs its images"),
        ({"memory_map": None}, "needs 'memory_map', by which images are linked"),
        ({"clock": "time"}, "which counts instructions: add 'clock: instructions'"),
        ({"emulated": False}, "where no real core is timed: add 'emulated: true'"),
    ],
)
def test_what_a_target_file_lacks_is_told(without: dict[str, object], words: str) -> None:
    target = load_target(BOARD)
    assert IMAGE.target_fault(target) is None
    fault = IMAGE.target_fault(target.model_copy(update=without))
    assert fault is not None
    assert words in fault.why


def test_recovering_drops_the_candidate(bench: ImageBench) -> None:
    bench.board.begin(replace(bench.request(HANGS), deadline_s=60.0))
    assert bench.board.collect() is None
    bench.board.recover()
    assert bench.board.collect() is None
    assert bench.run(RIGHT).status == "ok"


def test_an_emulator_that_runs_no_image_is_told_before_any_candidate(tmp_path: Path, cache: Path) -> None:
    target = load_target(BOARD)
    other = [word.replace(BOARD, "lm3s811evb") for word in target.emulator]  # 8 KiB of RAM, less than the stack
    board = image_board(target.model_copy(update={"emulator": tuple(other)}), tmp_path, cache)
    with pytest.raises(BoardUnfit, match="qemu-system-arm does not run an image that does nothing"):
        board.reserve()
    board.close()


def test_a_missing_emulator_is_named_with_its_package(tmp_path: Path, cache: Path) -> None:
    target = load_target(BOARD).model_copy(update={"emulator": ("qemu-system-none", "-kernel")})
    board = image_board(target, tmp_path, cache)
    with pytest.raises(
        ToolchainMissing, match=r"qemu-system-none .* is not on PATH: sudo apt-get install qemu-system-arm"
    ):
        board.reserve()
    board.close()
