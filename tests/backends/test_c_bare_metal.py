"""Packages for boards without operating system: they are built, run under a system emulator, and use no double."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import (
    BoardUnavailable,
    ConfigError,
    MemoryLimitExceeded,
    NothingRunsIt,
    ToolchainMissing,
    UnsupportedOperator,
    UsageError,
)
from edgetune.package.interface import CONTEXT_WORDS
from edgetune.resources import targets_dir
from edgetune.target.target import load_target
from edgetune.verify.driver import last_words
from edgetune.verify.work_copy import work_copy
from tests.distribution_sample import edgetune

BOARD = "mps2-an500"
MODEL = Path(__file__).parents[3] / "shared" / "models" / "mlperf_tiny" / "ad_int8.tflite"
DOUBLES = re.compile(r"__aeabi_(d\w+|\w+2d|cd\w+)$|__\w*(df|d)[23]$|__(fix|float)\w*df\w*$")


def model(path: Path) -> Path:
    """A convolution, a softmax and the largest index: floats, our own exponential and an integer output."""
    weights = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Softmax", ["c"], ["y"], axis=1),
        helper.make_node("ArgMax", ["c"], ["z"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 6])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 6, 6]),
            helper.make_tensor_value_info("z", TensorProto.INT64, [1, 1, 6, 6]),
        ],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("bare")
    model(found / "small.onnx")
    return found


@pytest.fixture(scope="module")
def package(folder: Path) -> Path:
    """Built by the command line, which runs the self-test under the emulator."""
    done = edgetune(["build", "small.onnx", "--board", BOARD, "-o", "small"], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "self-test on this machine, under qemu-system-arm" in done.stderr
    return folder / "small"


@pytest.mark.long
def test_the_package_is_verified_with_fresh_inputs_under_the_emulator(package: Path) -> None:
    done = edgetune(["verify", "small", "--board", BOARD, "--json"], cwd=package.parent)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["passed"], report["fresh_cases"], report["emulator"]) == (True, 2, "qemu-system-arm")
    assert {(each["name"], each["against"]) for each in report["outputs"]} == {
        (name, against) for name in ("y", "z") for against in ("golden", "fresh")
    }


def test_a_wrong_kernel_fails_on_the_device(package: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(package, copy)
    kernels = copy / "src/small_kernels.c"
    text = kernels.read_text()
    assert "0x1.63p-1f" in text
    kernels.write_text(text.replace("0x1.63p-1f", "0x1.73p-1f"))
    done = subprocess.run(["make", "-s", "selftest"], cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "WRONG (y)" in done.stdout
    assert "FAIL: an output is too far from its golden vector" in done.stdout


@pytest.mark.long
def test_the_images_hold_no_double_and_no_warning(package: Path) -> None:
    warnings = "-Wall -Wextra -Wconversion -Wdouble-promotion -Wshadow -Werror"
    with work_copy(package) as (copy, _):
        goals = ["build/small_selftest", "build/small_bench", "build/small_example"]
        done = subprocess.run(
            ["make", "-s", *goals, f"WARNINGS={warnings}"], cwd=copy, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        for goal in goals:
            names = subprocess.run(["arm-none-eabi-nm", goal], cwd=copy, capture_output=True, text=True, check=True)
            symbols = {line.split()[-1] for line in names.stdout.splitlines()}
            assert "small_run" in symbols
            assert {symbol for symbol in symbols if DOUBLES.fullmatch(symbol)} == set()


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("memory_map", "'backend' is 'c-bare-metal', which links programs by 'memory_map': add that, with 'flash' and"),
        ("memory_map.ram", "key 'memory_map.ram' is missing: add it"),
        ("clock_mhz", "'backend' is 'c-bare-metal', whose benchmark counts the clock: add 'clock_mhz', that of the"),
    ],
)
def test_a_target_without_regions_or_clock_is_refused(key: str, sentence: str, folder: Path, tmp_path: Path) -> None:
    described = yaml.safe_load((targets_dir() / f"{BOARD}.yaml").read_text()) | {"name": "own"}
    *groups, last = key.split(".")
    group = described
    for name in groups:
        group = group[name]
    del group[last]
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(described))
    done = edgetune(["build", str(folder / "small.onnx"), "--board", "own.yaml"], cwd=tmp_path)
    assert done.returncode == ConfigError.exit_code
    (error,) = [line for line in done.stderr.splitlines() if "error: " in line]
    assert re.search(r"own\.yaml(, line \d+)?: ", error)
    assert sentence in error


def test_the_benchmark_counts_instructions_under_the_emulator(package: Path) -> None:
    """Those of the layers and of what calls them are those of a run, and each run has as many."""
    done = edgetune(["bench", "small", "--json"], cwd=package.parent)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["note"].startswith("instructions counted under an emulator")
    assert (report["runs"], report["outliers"], report["trust"]) == (3, 0, "D")
    assert len(set(report["samples_us"])) == 1
    layers = sum(layer["median_us"] for layer in report["layers"])
    assert 0 < layers < report["median_us"] < layers + 0.2 * len(report["layers"])


def test_the_package_says_what_a_run_of_it_executes(package: Path) -> None:
    """The report and the manifest have the counts of the benchmark, and the cycles that they estimate."""
    done = edgetune(["bench", "small", "--json"], cwd=package.parent)
    told, counted = json.loads(done.stdout), json.loads((package / "MANIFEST.json").read_text())["counted"]
    assert counted["instructions"] == round(told["median_us"] * 1000) == told["counts"]["instructions"]
    assert counted["layers"] == [round(layer["median_us"] * 1000) for layer in told["layers"]]
    assert counted["cycles"] == told["estimated_cycles"]
    assert told["estimated_ms"] == pytest.approx(told["estimated_cycles"] / 25 / 1000)
    report = (package / "REPORT.md").read_text()
    assert f"One run executes **{counted['instructions']:,} instructions** under qemu-system-arm" in report
    assert f"about **{counted['cycles']:,} cycles**" in report
    assert "an estimate by the costs of the target file (`cycles`: instructions " in report
    assert "## Forms of kernels" in report
    readme = (package / "README.md").read_text()
    assert f"One run executes {counted['instructions']:,} instructions, as qemu-system-arm counts them: " in readme


def test_a_fault_of_the_self_test_is_printed_with_its_registers(package: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(package, copy)
    kernels = copy / "src/small_kernels.c"
    text = kernels.read_text()
    kernels.write_text(text.replace("\n{\n", "\n{\n    *(volatile unsigned *)0xF0000000u = 1;\n", 1))
    done = subprocess.run(["make", "-s", "selftest"], cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    fault = last_words(done.returncode, done.stderr.partition("make: ")[0])
    assert fault.startswith("HardFault: an invalid address")
    at = re.search(r"instruction at 0x0*([0-9a-f]+)", fault)
    assert at is not None
    command = ["arm-none-eabi-nm", "-S", "--defined-only", "build/small_selftest"]
    symbols = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=True).stdout
    sized = (line.split() for line in symbols.splitlines())
    places = {words[3]: range(int(words[0], 16), int(words[0], 16) + int(words[1], 16)) for words in sized if words[3:]}
    assert any(name.startswith("small__k_") for name, place in places.items() if int(at[1], 16) in place)


def test_inputs_that_no_memory_of_the_board_holds_are_refused_before_a_reference_reads_them(tmp_path: Path) -> None:
    """Else 11 GB are drawn; indices of what fits have 32 bits."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [70000, 40000]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "large", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "large.onnx")
    done = edgetune(["build", "large.onnx", "--board", BOARD, "-o", "large"], cwd=tmp_path)
    assert done.returncode == MemoryLimitExceeded.exit_code
    assert "input x 70000x40000 of large takes 11200000000 bytes, and board" in done.stderr
    assert not (tmp_path / "large").exists()


@pytest.mark.long
def test_the_benchmark_has_a_clock_of_its_own(package: Path) -> None:
    with work_copy(package) as (copy, _):
        done = subprocess.run(["make", "-s", "bench"], cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["runs"], report["threads"]) == (10, 1)
    assert 0 < report["min_us"] <= report["median_us"]


@pytest.mark.skipif(not MODEL.is_file(), reason=f"{MODEL} is not there")
@pytest.mark.parametrize("part", ["stm32l4r5", "rp2040"])
def test_packages_for_parts_compile_without_a_warning_within_their_memory(part: str, tmp_path: Path) -> None:
    """No emulator has their memory map: the package says so, and its self-test is linked for the part."""
    done = edgetune(["build", str(MODEL), "--board", part, "-o", "package"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"nothing on this machine runs programs of board '{part}'" in done.stderr
    strict = "-Wall -Wextra -Wconversion -Wdouble-promotion -Wshadow -Werror"
    command = ["make", "-s", "build/ad_int8_selftest", f"WARNINGS={strict}"]
    made = subprocess.run(command, cwd=tmp_path / "package", capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    space = load_target(part).memory_map
    assert space is not None
    listed = subprocess.run(
        ["arm-none-eabi-readelf", "-lW", "build/ad_int8_selftest"],
        cwd=tmp_path / "package",
        capture_output=True,
        text=True,
        check=True,
    )
    code, variables = [line.split() for line in listed.stdout.splitlines() if line.split()[:1] == ["LOAD"]]
    for (_, _, address, _, _, size, *_), region in ((code, space.flash), (variables, space.ram)):
        assert int(address, 16) == region.origin  # the vector table, and not the headers of the file
        assert int(size, 16) <= region.bytes


def test_double_helpers_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("double f(double a, float b, long long c) { return a * b + a / (double)c - a; }\n")
    command = ["arm-none-eabi-gcc", "-O1", "-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard", "-c", "a.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["arm-none-eabi-nm", "-u", "a.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    wanted = {line.split()[-1] for line in done.stdout.splitlines()}
    assert {"__aeabi_dmul", "__aeabi_f2d", "__aeabi_l2d"} <= wanted
    assert {symbol for symbol in wanted if not DOUBLES.fullmatch(symbol)} == set()


def test_the_library_needs_no_operating_system(package: Path) -> None:
    with work_copy(package) as (copy, _):
        subprocess.run(["make", "-s"], cwd=copy, check=True)
        done = subprocess.run(
            ["arm-none-eabi-nm", "-u", "lib/libsmall.a"], cwd=copy, capture_output=True, text=True, check=True
        )
    wanted = {line.split()[-1] for line in done.stdout.splitlines() if line.startswith(" ")}
    assert {name for name in wanted if not name.startswith(("small", "mem", "__aeabi_mem"))} == set()


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ["build", "small.onnx", "--board", BOARD, "--threads", "2", "-o", "other"],
            UsageError.exit_code,
            "2 threads are asked for, but a package for board 'mps2-an500' has 1 at most",
        ),
    ],
    ids=["threads"],
)
@pytest.mark.usefixtures("package")
def test_what_is_not_there_yet_is_said(folder: Path, words: list[str], code: int, sentence: str) -> None:
    done = edgetune(words, cwd=folder)
    assert done.returncode == code
    errors = [line for line in done.stderr.splitlines() if "error: " in line]
    assert len(errors) == 1
    assert sentence in errors[0]


@pytest.mark.long
def test_a_model_in_double_is_refused(tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, [4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "wide", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "wide.onnx")
    done = edgetune(["build", "wide.onnx", "--board", BOARD], cwd=tmp_path)
    assert done.returncode == UnsupportedOperator.exit_code
    assert "computes in double, which board 'mps2-an500' lacks" in done.stderr
    assert not (tmp_path / "build").exists()


def _static_bytes(package: Path) -> int:
    """RAM of the variables of the self-test, the C library among them."""
    with work_copy(package) as (copy, _):
        subprocess.run(["make", "-s", "build/small_selftest"], cwd=copy, check=True)
        command = ["arm-none-eabi-size", "build/small_selftest"]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=True)
    _, data, bss = map(int, done.stdout.splitlines()[1].split()[:3])
    return data + bss


def _stated(package: Path) -> tuple[int, int]:
    """Bytes that a run takes without its inputs, and those that the report adds for the self-test."""
    facts = json.loads((package / "MANIFEST.json").read_text())
    memory, outputs = facts["memory"], sum(tensor["bytes"] for tensor in facts["outputs"])
    found = re.search(
        r"^\| additional RAM for the self-test.*\| ([\d,]+) \|$", (package / "REPORT.md").read_text(), re.MULTILINE
    )
    assert found is not None
    run = memory["workspace_bytes"] + 8 * CONTEXT_WORDS + outputs + memory["call_stack_bytes"]
    return run, int(found[1].replace(",", ""))


def _built_with(ram: int, folder: Path, place: Path, model_file: str = "small.onnx") -> CompletedProcess[str]:
    """Build for a board with `ram` bytes of RAM, into the folder "tight" in `place`."""
    target = yaml.safe_load((targets_dir() / f"{BOARD}.yaml").read_text())
    del target["defaults"]
    target["name"] = "tight"
    target["memory_map"]["ram"]["bytes"] = ram
    (place / "tight.yaml").write_text(yaml.safe_dump(target))
    words = ["build", str(folder / model_file), "--board", "tight.yaml", "-o", "tight", "--json"]
    return edgetune(words, cwd=place)


def test_the_self_test_takes_the_memory_of_the_package_and_a_stated_constant(package: Path) -> None:
    facts = json.loads((package / "MANIFEST.json").read_text())
    run, more = _stated(package)
    stack_and_heap = 4096
    assert more == 512 + stack_and_heap + (1 + len(facts["outputs"])) * (2 * 64 + 64)
    static = _static_bytes(package)
    assert static > facts["memory"]["workspace_bytes"]
    assert static + stack_and_heap + facts["memory"]["call_stack_bytes"] <= run + more


@pytest.mark.long
def test_the_self_test_runs_where_the_package_fits(folder: Path, package: Path, tmp_path: Path) -> None:
    built = _built_with(sum(_stated(package)), folder, tmp_path)
    assert built.returncode == 0, built.stderr
    assert "self-test on this machine, under qemu-system-arm" in built.stderr
    assert "not_tested" not in json.loads(built.stdout)
    done = edgetune(["verify", "tight"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_no_setting_makes_the_memory_of_a_board_larger(folder: Path, tmp_path: Path) -> None:
    """The advice was to raise it, and the package that fitted nothing was written."""
    (tmp_path / "edgetune.yaml").write_text(f"model: {folder / 'small.onnx'}\nmemory: {{ram: 64KiB}}\n")
    built = _built_with(256, folder, tmp_path)
    assert built.returncode == MemoryLimitExceeded.exit_code
    assert re.search(r"and the limit is 256 bytes, \d+ too few; the largest tensors are ", built.stderr)
    assert "it is that of memory_map in target 'tight', so use a smaller model or a larger board" in built.stderr


@pytest.mark.long
def test_less_than_two_workspaces_suffice(tmp_path: Path) -> None:
    """36 kB of workspace on a board with 64."""
    weights = np.random.default_rng(0).standard_normal((16, 1, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 1, 24, 24]), ("y", [1, 16, 1, 1]))
    ]
    graph = helper.make_graph(nodes, "half", values[:1], values[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "half.onnx")
    built = _built_with(64 * 1024, tmp_path, tmp_path, "half.onnx")
    assert built.returncode == 0, built.stderr
    assert "self-test on this machine, under qemu-system-arm" in built.stderr
    assert json.loads((tmp_path / "tight/MANIFEST.json").read_text())["memory"]["workspace_bytes"] > 32 * 1024
    assert _built_with(sum(_stated(tmp_path / "tight")), tmp_path, tmp_path, "half.onnx").returncode == 0
    done = edgetune(["verify", "tight", "--json"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["golden_cases"], report["fresh_cases"]) == (3, 0)  # their program has the inputs in RAM as well
    assert report["not_compared"].startswith("no fresh inputs were compared: build/half_driver does not fit")


@pytest.mark.long
@pytest.mark.parametrize(
    ("left", "sentence"),
    [
        (-500, r"ld: region `RAM' overflowed by \d+ bytes"),
        (2000, r"ld: stack and heap need \d+ bytes, more than is left in region RAM: enlarge memory_map\.ram in the "),
    ],
    ids=["variables", "stack"],
)
def test_a_package_whose_self_test_finds_no_room_is_written_with_a_word(
    folder: Path, package: Path, tmp_path: Path, left: int, sentence: str
) -> None:
    built = _built_with(_static_bytes(package) + left, folder, tmp_path)
    assert built.returncode == 0, built.stderr
    not_tested = json.loads(built.stdout)["not_tested"]
    assert re.match(r"build/small_selftest does not fit the memory_map of the board: " + sentence, not_tested)
    (warning,) = [line for line in built.stderr.splitlines() if "the self-test of the package does not run" in line]
    assert json.loads(warning)["message"].endswith(not_tested)
    assert (tmp_path / "tight/src/small.c").is_file()
    done = edgetune(["verify", "tight"], cwd=tmp_path)
    assert done.returncode == MemoryLimitExceeded.exit_code


@pytest.mark.long
def test_a_workspace_larger_than_the_memory_is_refused(folder: Path, tmp_path: Path) -> None:
    """Before anything is compiled, though no limit is stated: the memory map is one."""
    built = _built_with(256, folder, tmp_path)
    assert built.returncode == MemoryLimitExceeded.exit_code
    assert "and the limit is 256" in built.stderr
    assert not (tmp_path / "tight").exists()


def test_the_limits_leave_room_for_the_self_test() -> None:
    """Beside the workspace it has the outputs."""
    target = load_target(BOARD)
    memory, space = target.defaults.memory, target.memory_map
    assert memory is not None
    assert space is not None
    assert (memory.ram or 0) < space.ram.bytes
    assert (memory.flash or 0) < space.flash.bytes
    assert target.memory_sizes == {"ram": space.ram.bytes, "flash": space.flash.bytes}


@pytest.mark.long
@pytest.mark.parametrize("missing", ["arm-none-eabi-gcc", "qemu-system-arm"])
def test_a_missing_tool_is_named_with_its_package(package: Path, tmp_path: Path, missing: str) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for tool in ("make", "arm-none-eabi-gcc", "qemu-system-arm", "sh", "gcc"):
        found = shutil.which(tool)
        if tool != missing and found is not None:
            (bin_folder / tool).symlink_to(found)
    done = edgetune(["verify", "small"], cwd=package.parent, environment={"PATH": str(bin_folder)})
    assert done.returncode == ToolchainMissing.exit_code
    (error,) = [line for line in done.stderr.splitlines() if "error: " in line]
    assert f"{missing} " in error
    assert "apt-get install" in error


@pytest.mark.long
def test_the_doctor_compiles_and_runs_for_the_board(tmp_path: Path) -> None:
    done = edgetune(["doctor", "--board", BOARD, "--json"], cwd=tmp_path)
    found = {each["check"]: each["ok"] for each in json.loads(done.stdout)}
    assert {name: ok for name, ok in found.items() if BOARD in name} == {
        f"compiler of {BOARD}": True,
        f"compiles for {BOARD}": True,
        f"runs for {BOARD}": True,
    }


@pytest.mark.long
def test_such_a_board_gets_no_address_and_is_listed_so(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    words = ["boards", "add", "one", "--target", BOARD, "--ssh", "pi@one.local"]
    done = edgetune(words, cwd=tmp_path, environment=home)
    assert done.returncode != 0
    assert f"--target {BOARD} needs no address" in done.stderr
    assert not (tmp_path / "config/edgetune/boards.yaml").exists()
    done = edgetune(["boards", "list"], cwd=tmp_path, environment=home)
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith(BOARD)]
    assert {"instruction", "counts"} <= set(row)
    done = edgetune(["boards", "check", BOARD, "--json"], cwd=tmp_path, environment=home)
    assert (done.returncode, {each["ok"] for each in json.loads(done.stdout)}) == (0, {True})


@pytest.mark.long
def test_a_board_that_nothing_here_stands_for_gets_its_package(folder: Path) -> None:
    """A user's own controller: its self-test is for the board, and no advice is given that nobody can follow."""
    target = load_target(BOARD).model_dump(mode="json", exclude_unset=True)
    emulated = ("emulator", "emulator_package", "emulated", "clock")
    target = {key: value for key, value in target.items() if key not in emulated} | {"name": "own", "reach": "none"}
    (folder / "own.yaml").write_text(yaml.safe_dump(target))
    done = edgetune(["tune", "small.onnx", "--board", "own.yaml", "--trials", "2"], cwd=folder)
    assert done.returncode == BoardUnavailable.exit_code
    assert "board 'own' cannot be tuned, because edgetune has no way yet to time candidates" in done.stderr
    done = edgetune(["build", "small.onnx", "--board", "own.yaml", "-o", "own"], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "self-test of the package does not run here: nothing on this machine runs programs of board" in done.stderr
    assert "`make build/small_selftest` in the package makes it)" in done.stderr
    texts = done.stderr + (folder / "own/README.md").read_text() + (folder / "own/REPORT.md").read_text()
    assert "edgetune tune" not in texts
    assert "of what the core allows" not in texts
    subprocess.run(["make", "-s", "build/small_selftest"], cwd=folder / "own", check=True)
    done = edgetune(["verify", "own"], cwd=folder)
    assert done.returncode == NothingRunsIt.exit_code
    assert "the package runs on" not in done.stderr


@pytest.mark.parametrize(("board", "told"), [("mps2-an385", True), ("mps2-an386", False)])
def test_floats_without_an_fpu_are_told_with_the_way_out(board: str, told: bool, folder: Path, tmp_path: Path) -> None:
    words = ["build", str(folder / "small.onnx"), "--board", board, "-o", str(tmp_path / "out")]
    done = edgetune(words, cwd=folder)
    assert done.returncode == 0, done.stderr
    warning = f"{board} has no FPU, so functions of the compiler's library multiply and add the floats of"
    assert (
        warning in done.stderr and "the model quantised to int8 takes far fewer instructions" in done.stderr
    ) == told
