"""Emission: the bytes, the folder, and what is refused."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgetune.errors import DiskFull, KernelFailed, MemoryLimitExceeded, OutputRefused, UsageError, WrongResult
from edgetune.events import Event
from edgetune.graph.parts import Part
from edgetune.package.constants import place_weights
from edgetune.package.core_files import core_files
from edgetune.package.explain import explain
from edgetune.package.golden import Golden, OutputTolerance
from edgetune.package.manifest import read_manifest
from edgetune.package.output_folder import check_output_folder, staged
from edgetune.package.package_file import PackageFile
from edgetune.package.provenance import KernelProvenance
from edgetune.package.size import FunctionStack, deepest_call
from tests import package_sample as sample
from tests.foreign_locale import turkish

ROOT = Path(__file__).parents[2]


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_every_file_of_a_tiny_package(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    sample.emit(tmp_path / "out", measure=False)
    files = contents(tmp_path / "out")
    for name, data in files.items():
        if name != "LICENSE":
            golden(f"package/tiny/{name}", data.decode("ascii" if name.endswith((".c", ".h")) else "utf-8"))
    kept = contents(ROOT / "tests/golden/package/tiny")
    assert sorted(kept) == sorted(set(files) - {"LICENSE"})


@pytest.mark.long
def test_the_bytes_do_not_depend_on_folder_locale_or_hash_seed(tmp_path: Path) -> None:
    emit = "import sys, pathlib; from tests import package_sample as s; s.emit(pathlib.Path(sys.argv[1]), scratch=64)"
    abroad = f"from tests.foreign_locale import take_on; take_on(); {emit}"
    results = []
    for number, (code, extra) in enumerate(
        (
            (emit, {"LC_ALL": "C", "PYTHONHASHSEED": "1"}),
            (abroad, {**turkish(tmp_path / "locale"), "PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo"}),
        )
    ):
        out = tmp_path / ("here", "there/far away")[number] / "package"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **extra}
        subprocess.run([sys.executable, "-c", code, str(out)], check=True, cwd=tmp_path, env=environment)
        results.append(contents(out))
    assert results[0] == results[1]


def test_an_earlier_package_is_replaced_and_nothing_lies_around(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sample.emit(out, name="first", measure=False)
    (out / "lib").mkdir()
    sample.emit(out, name="second", measure=False)
    assert read_manifest(out)["prefix"] == "second"
    assert not (out / "lib").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_of_somebody_else_is_refused_untouched(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(OutputRefused, match="not a package"):
        sample.emit(out)
    (out / "MANIFEST.json").write_text('{"generator": {"name": "other"}}', encoding="utf-8")
    with pytest.raises(OutputRefused, match="not a package"):
        sample.emit(out)
    assert sorted(path.name for path in out.iterdir()) == ["MANIFEST.json", "thesis.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("change", [{"format": 99}, {"inputs": None}, {"files": {"src/tiny.c": None, "": {}}}])
def test_a_package_of_another_version_is_replaced(tmp_path: Path, change: dict[str, object]) -> None:
    sample.emit(tmp_path / "out", measure=False)
    manifest = tmp_path / "out/MANIFEST.json"
    said = json.loads(manifest.read_text(encoding="utf-8"))
    for path in (tmp_path / "out").iterdir():
        if "files" in change and path.name not in {"src", "MANIFEST.json"}:
            (shutil.rmtree if path.is_dir() else os.unlink)(path)
    manifest.write_text(json.dumps(said | change), encoding="utf-8")
    sample.emit(tmp_path / "out", name="second", measure=False)
    assert read_manifest(tmp_path / "out")["prefix"] == "second"


def test_a_package_that_does_not_list_its_files_is_refused(tmp_path: Path) -> None:
    sample.emit(tmp_path / "out", measure=False)
    (tmp_path / "out/MANIFEST.json").write_text('{"generator": {"name": "edgetune"}}', encoding="utf-8")
    with pytest.raises(OutputRefused, match="remove the folder or choose another with -o"):
        sample.emit(tmp_path / "out", measure=False)


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    sample.emit(tmp_path, measure=False)
    assert read_manifest(tmp_path)["prefix"] == "tiny"


@pytest.mark.parametrize("where", ["parent", "folder"])
def test_a_read_only_place_is_refused(tmp_path: Path, where: str) -> None:
    out = tmp_path / "ro" / "out"
    out.mkdir(parents=True)
    locked = out if where == "folder" else out.parent
    locked.chmod(0o555)
    try:
        with pytest.raises(OutputRefused, match="cannot be written"):
            sample.emit(out)
    finally:
        locked.chmod(0o755)
    assert list(out.iterdir()) == []


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for out in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(OutputRefused, match="is a file"):
            check_output_folder(out)


@pytest.mark.long
def test_a_full_disk_leaves_the_earlier_package(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sample.emit(out, measure=False)
    before = contents(out)
    code = (
        "import resource, signal, sys; from pathlib import Path; from tests import package_sample as s\n"
        "from edgetune.errors import DiskFull\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n    s.emit(Path(sys.argv[1]), measure=False)\nexcept DiskFull as error:\n    print(error.message)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.startswith("no space is left to write")
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_no_space_is_told_apart_from_no_permission(tmp_path: Path) -> None:
    with pytest.raises(DiskFull), staged(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OutputRefused), staged(tmp_path / "b"):
        raise OSError(errno.EROFS, "Read-only file system")
    assert list(tmp_path.iterdir()) == []


def test_equal_weights_are_stored_once_and_large_ones_in_a_file(tmp_path: Path) -> None:
    model = sample.program()
    same = {(0, 1): model.constants[1], (1, 1): model.constants[1].copy()}
    assert len(place_weights(model, same).items) == 1
    assert place_weights(model, {}, text_limit=64).placement == "binary"
    weights = place_weights(model, {}, "binary")
    assert len(weights.image()) == weights.nbytes == 128
    assert weights.image()[64:96] == model.constants[3].tobytes()
    sample.emit(tmp_path / "out", weights="binary", measure=False)
    assert (tmp_path / "out/src/tiny_weights.bin").read_bytes() == weights.image()
    assert not (tmp_path / "out/src/tiny_weights.c").exists()


def test_packed_weights_win_over_the_models_own(tmp_path: Path) -> None:
    model = sample.program()
    twice = {(0, 1): model.constants[1] * 2}
    assert np.array_equal(place_weights(model, twice).items[0].array, model.constants[1] * 2)
    wrong = {(0, 1): np.zeros(3, np.float32)}
    made, cases, origins = sample.sources("tiny"), sample.goldens(model), sample.provenance()
    with pytest.raises(KernelFailed, match="the kernel needs 8 float32"):
        sample.write(sample.compiled(model, made, origins, packed=wrong), cases, tmp_path / "out")


def test_goldens_must_fit_the_model(tmp_path: Path) -> None:
    model = sample.program()
    bad = [Golden({"x": np.zeros(5, np.float32)}, {"y": np.zeros((4, 8), np.float32)})]
    with pytest.raises(WrongResult, match="golden case 0: input 'x'"):
        sample.write(sample.compiled(model, sample.sources("tiny"), sample.provenance()), bad, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_deep_stack_frames_are_warned_of(tmp_path: Path) -> None:
    model = sample.program()
    made = sample.sources("tiny")
    hungry = made[1].definition.replace("{\n", "{\n    volatile char big[8192];\n    big[0] = 1;\n", 1)
    made[1] = type(made[1])(**{**vars(made[1]), "definition": hungry})
    events: list[Event] = []
    cases, origins = sample.goldens(model), sample.provenance()
    summary = sample.write(sample.compiled(model, made, origins), cases, tmp_path / "out", on_event=events.append)
    assert [event.kind for event in events] == ["warning"]
    assert "tiny__k_add takes 8," in summary.warnings[0]
    assert "tiny__k_add" in (tmp_path / "out/REPORT.md").read_text(encoding="utf-8")


def test_helpers_out_of_line_count_for_the_stack_of_a_call(tmp_path: Path) -> None:
    helper = (
        "static __attribute__((noinline)) float et_deep_f32(float x)\n"
        "{\n    volatile float big[256];\n    big[0] = x;\n    return big[0];\n}\n"
    )
    model, made = sample.program(), sample.sources("tiny")
    calling = made[1].definition.replace("a[i] + b[i]", "et_deep_f32(a[i] + b[i])")
    made[1] = dataclasses.replace(made[1], definition=calling)
    cases, origins = sample.goldens(model), sample.provenance()
    code = sample.write(sample.compiled(model, made, origins, preamble=helper), cases, tmp_path / "p").code
    assert code is not None
    frames = {function.name: function.stack_bytes for function in code.functions}
    assert frames["et_deep_f32"] >= 1024 - 128  # x86-64 keeps leaves in the red zone below the stack pointer
    assert code.call_stack_bytes >= frames["tiny_run"] + frames["tiny__k_add"] + frames["et_deep_f32"]


def test_ram_of_a_package_without_an_arena_is_that_of_its_header(tmp_path: Path) -> None:
    model, made, cases = sample.copies([("float32", (2, 3))])
    origins = [KernelProvenance("33" * 32, "fixed")]
    sample.write(sample.compiled(model, made, origins), cases, tmp_path / "p", measure=False)
    report = (tmp_path / "p/REPORT.md").read_text(encoding="utf-8")
    assert "| workspace (the arena, with the scratch memory of kernels) | 64 |" in report


def test_the_report_names_kernels_whose_integers_are_floats_and_why(tmp_path: Path) -> None:
    why = "no record: the default schedule (an estimated 900 instructions with products of integers, 500 of floats)"
    bytes_, floats = (dataclasses.replace(one, why=why) for one in sample.provenance())
    floats = dataclasses.replace(floats, form="wide_float32")
    for origins, named in (([bytes_, bytes_], False), ([bytes_, floats], True)):
        sample.emit(tmp_path / str(named), origins=origins, measure=False)
        report = (tmp_path / str(named) / "REPORT.md").read_text(encoding="utf-8")
        assert ("multiply integers as floats" in report) == named
        assert ("500 of floats" in report) == named


def test_the_report_says_what_is_allowed_where_that_is_less_than_what_moves(tmp_path: Path) -> None:
    model, made, cases = sample.copies([("float32", (2, 3)), ("int32", (2, 3)), ("int64", (2, 3))])
    tolerances = {
        "out float32": dataclasses.replace(OutputTolerance.quantised(2.0).carried("float32", 3, 1.0), absolute=0.5),
        "out int32": OutputTolerance.rounded("int32", 990.0, 1.0),
        "out int64": OutputTolerance.rounded("int64", 7.0, 0.01),
    }
    origins = [KernelProvenance("33" * 32, "fixed") for _ in made]
    sample.write(sample.compiled(model, made, origins), cases, tmp_path / "p", measure=False, tolerances=tolerances)
    report = (tmp_path / "p/REPORT.md").read_text(encoding="utf-8")
    assert "The tolerance is half of the largest element of the least case, 0.5: beyond" in report
    assert "moves out int32 by 990 at most" in report
    assert "right outputs cannot be told from wrong ones, so it stays exact." in report
    assert "| out int64 | 7 in 4 % of the elements |" in report
    assert "That is allowed in four times as many elements as were seen to move." in report


def test_the_comment_of_a_kernel_without_arithmetic_has_the_number_of_its_elements(tmp_path: Path) -> None:
    model, made, cases = sample.copies([("float32", (2, 3))])
    origins = [KernelProvenance("33" * 32, "fixed")]
    sample.write(sample.compiled(model, made, origins), cases, tmp_path / "p", measure=False)
    text = (tmp_path / "p/src/copies_kernels.c").read_text(encoding="utf-8")
    assert " * Work:      6 elements, called 1 time a run\n" in text


@pytest.mark.parametrize(
    ("operators", "told"),
    [
        (("Identity", "Identity"), "compute them: their concatenation needs"),
        (("copy", "Identity"), "compute them: except for 1 copy, their concatenation needs no layer and no time"),
        (("copy", "copy"), "compute them: except for 2 copies, their concatenation needs"),
    ],
)
def test_copies_that_remain_of_concatenations_are_told(operators: tuple[str, ...], told: str, tmp_path: Path) -> None:
    model, made, cases = sample.copies([("float32", (2, 3)), ("int8", (4,))])
    model = dataclasses.replace(
        model,
        kernels=tuple(
            dataclasses.replace(k, sources=(name,)) for k, name in zip(model.kernels, operators, strict=True)
        ),
        calls=tuple(dataclasses.replace(call, parts={1: Part(0, ())}) for call in model.calls),
    )
    origins = [KernelProvenance("33" * 32, "fixed")] * 2
    sample.write(sample.compiled(model, made, origins), cases, tmp_path / "p", measure=False)
    assert told in (tmp_path / "p/REPORT.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_code_counts_against_flash_and_a_refusal_leaves_nothing(tmp_path: Path) -> None:
    size = sample.emit(tmp_path / "fits")
    assert size.code is not None
    needed = size.size.weights_bytes + size.code.code_bytes
    sample.emit(tmp_path / "fits", flash_limit=needed)
    before = contents(tmp_path / "fits")
    for place in (tmp_path / "fits", tmp_path / "new/deep/out"):
        with pytest.raises(MemoryLimitExceeded, match=rf"{needed} bytes of flash .* of code .* limit is {needed - 1}"):
            sample.emit(place, flash_limit=needed - 1)
    assert contents(tmp_path / "fits") == before
    assert [p.name for p in tmp_path.iterdir()] == ["fits"]


def test_counted_instructions_are_never_called_microseconds(tmp_path: Path) -> None:
    origins = [
        KernelProvenance(
            number * 32, "record", "qemu-aarch64", "17", clock="instructions", instructions=12_345, trust="D", samples=9
        )
        for number in ("11", "22")
    ]
    sample.emit(tmp_path / "p", target=sample.arm("qemu-aarch64"), origins=origins, measure=False)
    files = contents(tmp_path / "p")
    report, readme = (files[name].decode() for name in ("REPORT.md", "README.md"))
    assert "| 12,345 | record 17 on qemu-aarch64, trust D |" in report
    assert "| 37,035 | all layers |" in report
    assert "One run executes about 37,035 instructions" in readme
    kernels = files["src/tiny_kernels.c"].decode()
    assert "12,345 instructions, record 17 on qemu-aarch64" in kernels
    for text in (report, readme, kernels):
        assert not re.search(r"\bus\b|microsecond", text)
    told = explain(tmp_path / "p", "add").to_json()
    assert (told["clock"], told["instructions"]) == ("instructions", 12_345)
    assert "median_us" not in told


def test_a_kernel_is_found_by_its_name_its_symbol_and_its_layers(tmp_path: Path) -> None:
    sample.emit(tmp_path / "p", measure=False)
    manifest = read_manifest(tmp_path / "p")
    symbols = {kernel["name"]: kernel["symbol"] for kernel in manifest["kernels"]}
    for number, layer in enumerate(manifest["layers"]):
        for word in (layer["kernel"], symbols[layer["kernel"]], layer["label"], str(number)):
            assert layer["label"] in " ".join(explain(tmp_path / "p", word).layers)


def test_a_kernel_is_found_without_the_prefix_and_a_layer_without_its_operators(tmp_path: Path) -> None:
    sample.emit(tmp_path / "p", measure=False)
    assert explain(tmp_path / "p", "k_add").kernel == "add"
    assert explain(tmp_path / "p", "tiny_scale_add").kernel == "scale_add"
    manifest = read_manifest(tmp_path / "p")
    manifest["layers"][2]["label"] = "tiny/head/Add (Add, Relu)"
    (tmp_path / "p/MANIFEST.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert explain(tmp_path / "p", "head/Add").kernel == "add"
    with pytest.raises(UsageError, match=r"no kernel or layer 'head/Ad': the nearest are tiny/head/Add \(Add, Relu\)"):
        explain(tmp_path / "p", "head/Ad")


def test_a_package_names_what_it_is_for_and_what_is_untuned(tmp_path: Path) -> None:
    host = sample.generic_x86().model_copy(update={"description": "this machine", "reach": "local"})
    untuned = [KernelProvenance(number * 32, "fixed") for number in ("11", "22")]
    sample.emit(tmp_path / "p", target=host, origins=untuned, measure=False)
    for name in ("README.md", "REPORT.md"):
        text = (tmp_path / "p" / name).read_text(encoding="utf-8")
        assert "this machine" not in text
        assert f"CPU {host.cpu}" in text
        assert "default schedules for 2 of 2 kernels" in text
    sample.emit(
        tmp_path / "t",
        origins=[dataclasses.replace(sample.provenance()[0], workload=w * 32) for w in ("11", "22")],
        measure=False,
    )
    assert "ntuned" not in (tmp_path / "t/REPORT.md").read_text(encoding="utf-8")


def test_times_of_an_emulated_machine_are_marked(tmp_path: Path) -> None:
    sample.emit(tmp_path / "p", target=sample.arm("qemu-rpi4"), measure=False)
    assert "**Emulated:** these times" in (tmp_path / "p/REPORT.md").read_text(encoding="utf-8")
    sample.emit(tmp_path / "p", target=sample.arm("rpi4"), measure=False)
    assert "mulated" not in (tmp_path / "p/REPORT.md").read_text(encoding="utf-8")


def test_functions_beside_the_interface_count_for_the_stack_of_a_call() -> None:
    """They carry the prefix of the package too, with two underscores."""
    interface = [FunctionStack("net_run", 100), FunctionStack("net__call_layers", 1000), FunctionStack("net_init", 8)]
    profiling = [FunctionStack("net__profile_layers", 300)]
    kernels = [FunctionStack("net__k_add", 50), FunctionStack("net__exp_f32", 5)]
    assert deepest_call("net", interface, [], kernels) == 1100
    assert deepest_call("net", [interface[0], *profiling], [], kernels) == 100 + 300 + 50 + 5


def test_all_sources_but_the_weights_count_as_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever files a package has: their one list is that of its core files."""
    more = PackageFile("src/tiny_more.c", b"int tiny__more(void);\nint tiny__more(void) { return 1; }\n")
    monkeypatch.setattr("edgetune.package.content.core_files", lambda *facts: (*core_files(*facts), more))
    made = sample.emit(tmp_path / "p", weights="text", width=4096)
    assert made.code is not None
    assert "tiny__more" in {function.name for function in made.code.functions}
    assert made.code.code_bytes < made.size.weights_bytes
