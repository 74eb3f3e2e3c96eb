"""What can be said of a package later: whole, right, fast, explained, small enough."""

from __future__ import annotations

import json
import re
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from edgetune import api
from edgetune.errors import (
    CompileFailed,
    NothingRunsIt,
    PackageInvalid,
    SelfTestFailed,
    ToolchainMissing,
    UsageError,
    WrongResult,
)
from edgetune.graph.accuracy import Tolerance
from edgetune.package.explain import explain
from edgetune.package.golden import Golden, GoldenCases
from edgetune.package.manifest import MANIFEST, read_manifest, write_manifest
from edgetune.target.detect import cpu_name, detect_host
from edgetune.verify import driver
from edgetune.verify.bench import bench
from edgetune.verify.place import Here
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.verify import OutputReport, difference, verify
from tests import package_sample as sample


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "package"
    sample.emit(folder, reference="numpy", model_file="models/tiny.onnx")
    return folder


@pytest.fixture
def package(emitted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(emitted, tmp_path / "package"))


def reseal(package: Path, name: str, old: str, new: str) -> None:
    """Change a file and the manifest with it, as a bug of the generator would."""
    path = package / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    facts = {key: value for key, value in read_manifest(package).items() if key not in {"files", "format"}}
    write_manifest(package, facts)


def test_a_good_package_passes_and_says_how_near_it_came(emitted: Path) -> None:
    fresh = sample.goldens(sample.program(), cases=5)
    report = verify(emitted, fresh=GoldenCases(fresh, "numpy again"))
    assert (report.golden_cases, report.fresh_cases, report.reference, report.emulator) == (3, 5, "numpy again", None)
    assert [(o.name, o.against) for o in report.outputs] == [("y", "golden"), ("y", "fresh")]
    assert all(0 <= o.max_abs <= o.bound for o in report.outputs)
    json.dumps(report.to_json(), allow_nan=False)
    assert not (emitted / "build").exists()


def test_the_shells_own_flags_do_not_leak_in(emitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-DKWS=( -fno-such-flag")
    monkeypatch.setenv("MAKEFLAGS", "--no-such-option")
    assert verify(emitted).golden_cases == 3


def test_where_the_cpu_runs_what_an_emulator_could_it_is_named() -> None:
    """So that nobody takes the answers of an AVX-512 machine for those of a CPU with SSE2."""
    target = sample.arm("generic-aarch64").model_copy(update={"isa": detect_host().isa})
    facts = {"target": target.model_dump(mode="json"), "prefix": "p"}
    tools = PackageToolchain.of(facts)
    assert (tools.emulator, tools.unused, tools.runs_here) == ((), "qemu-aarch64", True)
    assert Here(tools).where == f"this machine ({cpu_name()}), not under qemu-aarch64"


def test_where_nothing_runs_a_package_the_board_is_named() -> None:
    target = sample.arm("generic-riscv64").model_copy(update={"emulator": ()})
    facts = {"target": target.model_dump(mode="json"), "prefix": "p"}
    with pytest.raises(NothingRunsIt, match=r"board 'generic-riscv64' .*\(`make build/p_selftest` in the package"):
        PackageToolchain.of(facts).require()
    PackageToolchain.of(facts | {"target": target.model_dump(mode="json")}).require(emulator=False)


@pytest.mark.long
@pytest.mark.parametrize("board", ["generic-aarch64", "generic-armv7", "generic-riscv64"])
def test_packages_of_other_machines_run_under_their_emulator(tmp_path: Path, board: str) -> None:
    sample.emit(tmp_path / "p", target=sample.arm(board), weights="external", measure=False)
    report = verify(tmp_path / "p", fresh=GoldenCases(sample.goldens(sample.program(), cases=1)))
    assert report.emulator is not None
    assert report.emulator.startswith("qemu-")
    assert bench(tmp_path / "p", runs=3, seconds=0.01).emulator == report.emulator


def test_tampering_is_named(package: Path) -> None:
    with (package / "src/tiny.c").open("a", encoding="ascii") as stream:
        stream.write("/* improved */\n")
    with pytest.raises(PackageInvalid, match=r"src/tiny\.c was changed"):
        verify(package)
    (package / "src/tiny.c").unlink()
    with pytest.raises(PackageInvalid, match=r"lacks src/tiny\.c"):
        verify(package)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"generator": {"name": "edgetune"}, "format": 99}'])
def test_a_broken_manifest_is_one_sentence(package: Path, text: str) -> None:
    (package / MANIFEST).write_text(text, encoding="utf-8")
    for question in (verify, bench):
        with pytest.raises(PackageInvalid):
            question(package)
    with pytest.raises(PackageInvalid):
        explain(package, "add")


@pytest.mark.parametrize(
    "key",
    [
        *("model", "model.sha256", "target.isa", "target.compiler.cc", "goldens", "layers", "layers.1.macs"),
        *("kernels.0.name", "prefix", "name", "outputs.0.tolerance", "inputs", "memory.weights_placement", "files"),
    ],
)
def test_a_manifest_without_a_key_is_one_sentence_that_names_it(package: Path, key: str) -> None:
    content = json.loads((package / MANIFEST).read_text(encoding="utf-8"))
    *parents, last = key.split(".")
    inner = content
    for parent in parents:
        inner = inner[int(parent)] if isinstance(inner, list) else inner[parent]
    del inner[last]
    (package / MANIFEST).write_text(json.dumps(content), encoding="utf-8")
    for question in (verify, bench, lambda folder: explain(folder, "add"), lambda folder: api.verify(folder, None)):
        with pytest.raises(PackageInvalid, match=f"lacks the key '{re.escape(key)}'"):
            question(package)


@pytest.mark.parametrize(("key", "value"), [("prefix", "../x"), ("layers", 3), ("prefix", "$(reboot)"), ("model", "x")])
def test_a_manifest_with_a_wrong_value_is_one_sentence_that_names_it(package: Path, key: str, value: object) -> None:
    content = json.loads((package / MANIFEST).read_text(encoding="utf-8"))
    (package / MANIFEST).write_text(json.dumps(content | {key: value}), encoding="utf-8")
    with pytest.raises(PackageInvalid, match=f"its key '{key}' is wrong"):
        verify(package)


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageInvalid, match="no MANIFEST"):
        verify(tmp_path)
    with pytest.raises(PackageInvalid, match="not a folder"):
        verify(tmp_path / "nothing")


def test_a_manifest_cannot_reach_outside(package: Path) -> None:
    content = json.loads((package / MANIFEST).read_text(encoding="utf-8"))
    content["files"]["../../outside"] = {"bytes": 0, "sha256": ""}
    (package / MANIFEST).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(PackageInvalid, match="outside the package"):
        verify(package)


def test_wrong_kernels_are_wrong_results(package: Path) -> None:
    reseal(package, "src/tiny_kernels.c", "a[i] + b[i]", "a[i] + b[i] + 0.25f")
    with pytest.raises(WrongResult, match=r"output 'y' of golden case [0-2] is off by 0\.25"):
        verify(package)


def test_wrong_references_are_wrong_results(emitted: Path) -> None:
    x = np.zeros((4, 8), np.float32)
    with pytest.raises(WrongResult, match="output 'y' of fresh case 0"):
        verify(emitted, fresh=GoldenCases([Golden({"x": x}, {"y": x})]))


def test_a_crash_is_a_failed_self_test(package: Path) -> None:
    reseal(package, "src/tiny_kernels.c", "out[i] = a[i] + b[i];", "__builtin_trap();")
    with pytest.raises(SelfTestFailed, match="killed by signal"):
        verify(package)


@pytest.mark.long
def test_a_hang_ends(package: Path) -> None:
    reseal(package, "src/tiny_kernels.c", "out[i] = a[i] + b[i];", 'for (;;) __asm__ volatile("");')
    with pytest.raises(SelfTestFailed, match="did not end within"):
        verify(package, timeout_s=3)


def test_code_that_does_not_compile_shows_the_first_diagnostic(package: Path) -> None:
    reseal(package, "src/tiny_kernels.c", "a[i] + b[i]", "a[i] + nobody")
    with pytest.raises(CompileFailed, match="nobody"):
        verify(package)


@pytest.mark.long
def test_a_makefile_of_an_earlier_version_is_one_sentence(package: Path) -> None:
    """Earlier ones have no rule for the driver, and make's own rule would link it without the library."""
    reseal(package, "Makefile", "selftest bench driver)", "selftest bench)")
    assert verify(package).golden_cases == 3
    fresh = GoldenCases(sample.goldens(sample.program(), cases=1))
    with pytest.raises(
        PackageInvalid, match=r"^the package's Makefile has no rule for build/tiny_driver: .* build the"
    ):
        verify(package, fresh=fresh)


def test_missing_tools_name_the_command_that_installs_them(emitted: Path) -> None:
    target = sample.generic_x86()
    nothing = target.compiler.model_copy(update={"cc": "no-such-cc", "package": "gcc"})
    with pytest.raises(ToolchainMissing, match=r"no-such-cc.*apt-get install gcc"):
        verify(emitted, target=target.model_copy(update={"compiler": nothing}))


def test_a_package_of_an_earlier_version_is_timed_without_a_grade(package: Path) -> None:
    reseal(package, "test/tiny_bench.c", "if (argc > 4) {", "if (argc > 999) {")
    report = bench(package, runs=20, seconds=0.05)
    assert 0 < report.min_us <= report.median_us
    assert (report.samples_us, report.interval_us, report.trust) == ((), (), "")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("case 0 output 99 max_abs 0 max_rel 0 ulp 0 differing 0 bound 0 ok (0 of 1)", "printed an invalid line"),
        ("case 0 output 0 max_abs much max_rel 0 ulp 0 differing 0 bound 0 ok (0 of 1)", "printed an invalid line"),
        ("PASS", "compared 0 of 1 outputs"),
    ],
)
def test_a_self_test_that_says_what_it_cannot_have_seen_does_not_pass(package: Path, line: str, complaint: str) -> None:
    body = f'{{\n    puts("{line}");\n    puts("PASS");\n    return 0;\n}}\nint unused(void)\n{{'
    text = (package / "test/tiny_selftest.c").read_text(encoding="utf-8")
    start = text.index("int main(")
    brace = text.index("{", start)
    reseal(package, "test/tiny_selftest.c", text[start : brace + 1], f"{text[start:brace]}{body}")
    with pytest.raises(SelfTestFailed, match=complaint):
        verify(package)


def says(package: Path, line: str) -> None:
    """Have the benchmark say `line`, then what else it says."""
    reseal(
        package,
        "test/tiny_bench.c",
        "if (argc > 4) {",
        f'if (argc > 4)\n        puts("{line}");\n    if (argc > 999) {{',
    )


def test_runs_shorter_than_a_tick_are_said_to_be(package: Path) -> None:
    says(package, "samples_ns: 0 1000 0")
    report = bench(package, runs=3, seconds=0.01)
    assert (report.samples_us, report.interval_us, report.trust) == ((), (), "")
    assert report.note.startswith("a run takes less than a tick of the clock there")


@pytest.mark.parametrize("word", ["-5", "9" * 400, "nan"])
def test_samples_that_are_no_times_are_refused(package: Path, word: str) -> None:
    says(package, f"samples_ns: 1000 {word}")
    with pytest.raises(PackageInvalid, match="wrote samples that are not numbers"):
        bench(package, runs=3, seconds=0.01)


@pytest.mark.parametrize("word", ["-5", r"\"fast\"", "NaN", "1e999"])
def test_medians_that_are_no_times_are_refused(package: Path, word: str) -> None:
    reseal(package, "test/tiny_bench.c", r'"{\"median_us\": %.3f', rf'"{{\"median_us\": {word}, \"real\": %.3f')
    with pytest.raises(PackageInvalid, match=r"wrote no usable JSON \(.* is (not a number|neither a time)"):
        bench(package, runs=3, seconds=0.01)


def test_another_board_is_refused(emitted: Path) -> None:
    with pytest.raises(UsageError, match="the package is for x86_64"):
        verify(emitted, target=sample.arm("rpi4"))


def test_bench_gives_whole_runs_and_layers(emitted: Path) -> None:
    report = bench(emitted, runs=20, seconds=0.05)
    assert 0 < report.min_us <= report.median_us
    assert (report.runs, report.threads) == (20, 1)
    assert [layer.kernel for layer in report.layers] == ["scale_add", "scale_add", "add"]
    json.dumps(report.to_json(), allow_nan=False)


@pytest.mark.parametrize("name", ["scale_add", "tiny__k_scale_add", "1"])
def test_explain_tells_where_a_kernel_comes_from(emitted: Path, name: str) -> None:
    told = explain(emitted, name)
    assert (told.kernel, told.provenance.record, told.provenance.board) == ("scale_add", "17", "bench-1")
    assert told.to_json()["why"] == "fastest median of 12 correct candidates"
    assert [layer.split(":")[0] for layer in told.layers] == ["0", "1"]
    with pytest.raises(UsageError, match="nearest are scale_add"):
        explain(emitted, "scale")


def test_the_manifest_is_complete(emitted: Path) -> None:
    manifest = read_manifest(emitted)
    assert manifest["model"] == {"file": "tiny.onnx", "sha256": sample.SHA}
    assert manifest["memory"]["arena_bytes"] == manifest["memory"]["arena_bound_bytes"] == 256
    assert manifest["memory"]["code_bytes"] > 0
    assert manifest["target"]["compiler"]["cflags"] == ["-O2", "-msse2"]
    on_disk = {p.relative_to(emitted).as_posix() for p in emitted.rglob("*") if p.is_file()}
    assert set(manifest["files"]) == on_disk - {MANIFEST}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("outputs: " + "ab" * 3_000_000 + "\n", "printed 0 bytes of outputs, not 4"),
        ("outputs: " + "ab" * 3_000_000 + " end\n", "printed 3000000 bytes of outputs, not 4"),
        ("\n" * 3_000_000 + "outputs: ab\n" * 100_000, "printed 0 bytes of outputs, not 4"),
        ("outputs: 0z000000 end\n", "printed outputs that are not hexadecimal"),
        ("outputs: 00  0000 end\n", "printed outputs that are not hexadecimal"),
        ("outputs: 00\nnoise\noutputs: 0000803f end\n", ""),
    ],
    ids=["no end", "too many", "empty lines", "no digit", "spaces", "good"],
)
def test_what_a_board_prints_for_outputs_takes_no_more_memory_than_itself(text: str, complaint: str) -> None:
    tensors = [{"name": "y", "bytes": 4, "dtype": "float32", "shape": [1]}]
    tracemalloc.start()
    try:
        if complaint:
            with pytest.raises(SelfTestFailed, match=complaint):
                driver._outputs("tiny", text, tensors, [], [True])
        else:
            assert driver._outputs("tiny", text, tensors, [], [True])[0]["y"] == [1.0]
        assert tracemalloc.get_traced_memory()[1] < 2 * len(text) + 100_000
    finally:
        tracemalloc.stop()


def test_differences() -> None:
    wanted = np.array([1.0, -2.0, np.inf, np.nan, 0.0], np.float32)
    same = difference(wanted.copy(), wanted, Tolerance(relative=1e-4))
    assert (same.error.allowed, same.error.absolute, same.ulp, same.differing) == (True, 0.0, 0.0, 0.0)
    near = wanted.copy()
    near[0] = np.nextafter(np.float32(1), np.float32(2))
    found = difference(near, wanted, Tolerance(relative=1e-4))
    assert (found.error.allowed, found.ulp, found.differing) == (True, 1.0, 0.2)
    big = np.array([2**62], np.int64)
    assert difference(big + 1, big, Tolerance()).ulp == 1.0
    crossing = difference(np.array([-1e-45], np.float32), np.array([1e-45], np.float32), Tolerance(absolute=1.0))
    assert crossing.ulp == 2.0


def test_half_precision_may_round_the_other_way() -> None:
    """One unit in the last place of float16 is up to a thousandth of the value, of bfloat16 up to a 128th."""
    one = np.array([1.0], np.float16)
    assert difference(np.nextafter(one, np.float16(2)), one, Tolerance.default("float16")).error.allowed
    assert not difference(one + np.float16(0.01), one, Tolerance.default("float16")).error.allowed
    assert Tolerance.default("bfloat16").bound(1.0) > 2.0**-7
    assert Tolerance.default("uint8") == Tolerance()


def test_error_and_bound_are_of_the_case_nearest_to_its_bound() -> None:
    """They were the largest of all cases each, so an error looked small beside another case's bound."""
    near = OutputReport("y", "golden", 0.9, 0.9, 3.0, 0.25, 1.0, "n")
    far = OutputReport("y", "golden", 2.0, 0.02, 7.0, 0.5, 100.0, "n")
    exact = OutputReport("y", "golden", 0.0, 0.0, 0.0, 0.0, 0.0, "n")
    for one, other in ((near, far), (far, near)):
        assert one.worse(other) == OutputReport("y", "golden", 0.9, 0.9, 7.0, 0.5, 1.0, "n")
    assert exact.worse(far).bound == 100.0
    assert (near.of_bound, far.of_bound, exact.of_bound) == (0.9, 0.02, 0.0)
