"""What fails its self-test is not written; what fails because its reference is off is judged by the model in double."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune import api
from edgetune.boards.lock import TimingLock
from edgetune.config.settings import CommandLineFlags, Settings, resolve_settings
from edgetune.errors import BoardBusy, SelfTestFailed, ToolchainMissing, WrongResult
from edgetune.events import Event
from edgetune.package.manifest import read_manifest, sha256_file
from edgetune.package.rendering import render
from edgetune.pipeline import self_test
from edgetune.verify.verify import CPU_TOO_OLD

WIDTH = 64


def amplifying(path: Path, layers: int, outputs: int = 1) -> Path:
    """Each layer multiplies by large weights and folds the result back into -1 to 1: small differences grow."""
    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for layer in range(layers):
        weight = random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 2
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]))
        last = "y" if layer == layers - 1 else f"s{layer}"
        nodes.append(helper.make_node("Sin", [f"m{layer}"], [last]))
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, WIDTH])]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, WIDTH])]
    if outputs > 1:
        nodes.append(helper.make_node("Abs", ["x"], ["z"]))
        results.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, WIDTH]))
    graph = helper.make_graph(nodes, "amplifying", ends, results, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def settings_for(model: Path, board: str = "host") -> Settings:
    flags = CommandLineFlags(model=model, board=board, out=model.parent / "out", db=model.parent / "records.db")
    return resolve_settings(flags, {}, model.parent)


def spoiled(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str]) -> None:
    """From now on, packages are written with C that was changed, as a bug of the generator would."""

    def changed(template: str, **context: Any) -> str:
        text = render(template, **context)
        return change(text) if template == "core/kernels.c.j2" else text

    monkeypatch.setattr("edgetune.package.package_file.render", changed)


def last_stored(text: str, begin: str) -> str:
    """The C of kernels whose last store has `begin` before its value."""
    *_, store = re.finditer(r"\] =\s+", text)
    return f"{text[: store.end()]}{begin}{text[store.end() :]}"


def tenth_off(text: str) -> str:
    """The last kernel's results with 0.1 more."""
    return last_stored(text, "0.1f + ")


def warnings(events: list[Event]) -> list[str]:
    return [str(event.data["message"]) for event in events if event.kind == "warning"]


def everything_in(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): sha256_file(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def rounding_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, nobody knows what rounding does to a network, as with an operator that no evaluator can move."""
    monkeypatch.setattr("edgetune.frontend.onnx.disagreement.effect_of_rounding", lambda *_: {})


@pytest.mark.long
def test_what_rounding_does_to_a_network_is_allowed_and_said(tmp_path: Path) -> None:
    model, events = amplifying(tmp_path / "m.onnx", layers=8, outputs=2), list[Event]()
    api.build(settings_for(model), events=events.append)
    (said,) = warnings(events)[:1]
    assert said.startswith("output 'y': rounding each inner tensor by one unit in the last place, at random, moves it")
    tolerances = {t["name"]: t["tolerance"] for t in read_manifest(tmp_path / "out")["outputs"]}
    assert tolerances["y"] == {
        "relative": 4 * tolerances["y"]["rounding_error"],
        "absolute": 0.0,
        "rounding_error": tolerances["y"]["rounding_error"],
    }
    assert 1e-4 < tolerances["y"]["relative"] < 0.05
    assert tolerances["z"] == {"relative": 8e-5, "absolute": 0.0}
    report = (tmp_path / "out/REPORT.md").read_text(encoding="utf-8")
    assert "**This network amplifies rounding**: four times that is allowed" in report
    found = api.verify(tmp_path / "out", None, model)
    assert {(o.name, o.against) for o in found.outputs} == {(n, a) for n in "yz" for a in ("golden", "fresh")}
    assert all(("rounding each inner tensor" in o.note) == (o.name == "y") for o in found.outputs)


@pytest.mark.long
def test_verify_allows_what_rounding_does_with_its_fresh_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, events = amplifying(tmp_path / "m.onnx", layers=8), list[Event]()
    with monkeypatch.context() as patch:  # its golden vectors say nothing: those of zeros are zeros
        patch.setattr(
            "edgetune.frontend.onnx.sample_inputs.sample_inputs",
            lambda *_: [{"x": np.zeros((1, WIDTH), np.float32)}] * 3,
        )
        api.build(settings_for(model), events=events.append)
    assert not [message for message in warnings(events) if "rounding" in message]
    monkeypatch.setattr("edgetune.pipeline.fresh_inputs.FRESH_CASES", 4)
    golden, fresh = api.verify(tmp_path / "out", None, model, events.append).outputs
    assert (golden.against, golden.note) == ("golden", "")
    assert fresh.bound > 1e-4
    assert "rounding each inner tensor" in fresh.note


@pytest.mark.long
def test_a_reference_that_is_off_is_said_to_be_and_double_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounding_unknown(monkeypatch)
    model, events = amplifying(tmp_path / "m.onnx", layers=8, outputs=2), list[Event]()
    api.build(settings_for(model), events=events.append)
    said = [message for message in warnings(events) if "in double" in message]
    assert len(said) == 1
    assert said[0].startswith("output 'y': the reference in float32 differs from the model in double by 0.")
    tolerances = {t["name"]: t["tolerance"] for t in read_manifest(tmp_path / "out")["outputs"]}
    assert 1e-4 < tolerances["y"]["reference_error"] < tolerances["y"]["relative"] < 0.02
    assert tolerances["z"] == {"relative": 1e-4, "absolute": 0.0}
    assert "y is compared with the model in double" in (tmp_path / "out/REPORT.md").read_text(encoding="utf-8")
    report = api.verify(tmp_path / "out", None, model)
    assert {(o.name, o.against) for o in report.outputs} == {(n, a) for n in "yz" for a in ("golden", "fresh")}
    assert all(("compared with double" in o.note) == (o.name == "y") for o in report.outputs)


@pytest.mark.long
def test_verify_judges_by_double_what_its_fresh_reference_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounding_unknown(monkeypatch)
    model, events = amplifying(tmp_path / "m.onnx", layers=8), list[Event]()
    with monkeypatch.context() as patch:  # its golden vectors say nothing: those of zeros are zeros
        patch.setattr(
            "edgetune.frontend.onnx.sample_inputs.sample_inputs",
            lambda *_: [{"x": np.zeros((1, WIDTH), np.float32)}] * 3,
        )
        api.build(settings_for(model), events=events.append)
    assert not [message for message in warnings(events) if "in double" in message]
    monkeypatch.setattr("edgetune.pipeline.fresh_inputs.FRESH_CASES", 4)
    report = api.verify(tmp_path / "out", None, model, events.append)
    assert len([message for message in warnings(events) if "compared with double" in message]) == 1
    golden, fresh = report.outputs
    assert (golden.against, golden.note) == ("golden", "")
    assert fresh.bound > 1e-4
    assert "compared with double" in fresh.note


def test_a_package_that_is_really_wrong_fails_however_far_its_reference_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = amplifying(tmp_path / "m.onnx", layers=8)
    spoiled(monkeypatch, tenth_off)
    with pytest.raises(WrongResult, match=rf"is off by [012]\.\d+, .* nothing is written to {tmp_path}/out"):
        api.build(settings_for(model), events=lambda _: None)
    assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.long
def test_where_the_reference_is_off_by_everything_zeros_do_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, events = amplifying(tmp_path / "m.onnx", layers=40), list[Event]()

    spoiled(monkeypatch, lambda text: last_stored(text, "0.0f * "))
    with pytest.raises(WrongResult, match="nothing is written"):
        api.build(settings_for(model), events=events.append)
    (said,) = [message for message in warnings(events) if "in double" in message]
    assert said.startswith("output 'y': the reference in float32 differs from the model in double by ")
    assert "so no result in float32 can be judged" in said
    (said,) = [message for message in warnings(events) if "rounding" in message]
    assert said.startswith("output 'y': rounding each inner tensor by one unit in the last place, at random, moves it")
    assert "the network is chaotic" in said


@pytest.mark.long
@pytest.mark.parametrize("board", ["host", "generic-aarch64"])
def test_what_fails_its_self_test_does_not_replace_a_good_package(
    board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, events = amplifying(tmp_path / "m.onnx", layers=2), list[Event]()
    api.build(settings_for(model, board), events=events.append)
    tested = [str(e.data["name"]) for e in events if e.kind == "phase" and str(e.data["name"]).startswith("self-test")]
    assert tested == [
        "self-test on this machine" if board == "host" else "self-test on this machine, under qemu-aarch64"
    ]
    before = everything_in(tmp_path / "out")
    spoiled(monkeypatch, tenth_off)
    with pytest.raises(WrongResult, match=r"layer 0, .*, kernel matmul_sin, departs first"):
        api.build(settings_for(model, board), events=lambda _: None)
    assert everything_in(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "out"]


def test_a_package_that_crashes_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = amplifying(tmp_path / "m.onnx", layers=1)
    spoiled(monkeypatch, lambda text: text.replace(")\n{\n", ")\n{\n    __builtin_trap();\n"))
    with pytest.raises(SelfTestFailed, match="nothing is written"):
        api.build(settings_for(model), events=lambda _: None)
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_package_is_not_tested_beside_what_another_run_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = amplifying(tmp_path / "m.onnx", layers=1)
    monkeypatch.setattr("edgetune.boards.lock.lock_path", lambda: tmp_path / "lock")
    monkeypatch.setattr("edgetune.boards.lock.LOCK_TIMEOUT_S", 0.3)
    search = TimingLock(tmp_path / "lock")
    search.acquire()
    with pytest.raises(BoardBusy, match="has been timing on this machine"):
        api.build(settings_for(model), events=lambda _: None)
    assert not (tmp_path / "out").exists()
    search.release()
    api.build(settings_for(model), events=lambda _: None)
    search.acquire()  # it was given back
    search.close()


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ToolchainMissing("qemu-x (which runs it) is not on PATH"), "qemu-x (which runs it) is not on PATH"),
        (SelfTestFailed(f"FAIL: {CPU_TOO_OLD}"), CPU_TOO_OLD),
    ],
)
def test_where_nothing_can_run_it_that_is_said_once(
    error: Exception, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(self_test, "verify", refuse)
    model, events = amplifying(tmp_path / "m.onnx", layers=1), list[Event]()
    test = self_test.SelfTest(settings_for(model).target, events.append)
    test(tmp_path, tmp_path)
    test(tmp_path, tmp_path)
    assert warnings(events) == [f"the self-test of the package does not run here: {why}"]
    api.build(settings_for(model), events=events.append)
    assert (tmp_path / "out/MANIFEST.json").is_file()
    assert any(CPU_TOO_OLD in path.read_text(encoding="utf-8") for path in (tmp_path / "out/src").glob("*.c"))


@pytest.mark.long
def test_objects_that_were_compiled_for_their_size_are_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = amplifying(tmp_path / "m.onnx", layers=1)
    log = tmp_path / "compiled"
    compiler = tmp_path / "bin/gcc"
    compiler.parent.mkdir()
    compiler.write_text(f'#!/bin/sh\necho "$@" >>{log}\nexec /usr/bin/gcc "$@"\n', encoding="ascii")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(compiler.parent), prepend=":")
    api.build(settings_for(model), events=lambda _: None)
    compiled = [line for line in log.read_text(encoding="utf-8").splitlines() if "_kernels.c" in line]
    assert len(compiled) == 1
