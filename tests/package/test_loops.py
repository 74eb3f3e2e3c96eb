"""Packages with loops: compiled strictly, run, profiled, read layer by layer, and described."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from edgetune import api
from edgetune.errors import SelfTestFailed, WrongResult
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.package.explain import explain
from edgetune.package.manifest import kernels_of_layer, read_manifest
from edgetune.target.target import load_board_kind
from edgetune.verify.bench import bench
from tests.api.test_departure import in_kernel, tenth_added, trapped
from tests.api.test_self_test import settings_for, spoiled
from tests.loop_package import emit
from tests.loop_samples import Recurrent, numbers, parsed, recurrent
from tests.package.test_build import WARNINGS, last, make

# A loop in a loop reads what a layer of two directions makes; each begins with an input or a constant.
MODEL = """
g (float[5,2,3] x, float[2,2,8] h0, float[2,2,8] c0)
  => (float[5,2,2,8] y, float[2,2,8] h, float[2,2,8] c, float[2,8] s, float[5,2,2,8] a)
  <int32[2] lengths = {3, 5}> {
  y, h, c = LSTM <hidden_size = 8, direction = "bidirectional"> (x, w, r, b, lengths, h0, c0)
  s, a = Scan <num_scan_inputs = 1, body = q
    (float[2,8] s_in, float[2,2,8] rows) => (float[2,8] s_out, float[2,2,8] ao) {
    half = Mul (s_in, v)
    s_out, ao = Scan <num_scan_inputs = 1, scan_output_directions = [1], body = p
      (float[2,8] t_in, float[2,8] e) => (float[2,8] t_out, float[2,8] bo) {
      k = Mul (t_in, v)
      k2 = Add (k, s_in)
      t_out = Add (k2, e)
      bo = Tanh (t_out)
    }> (half, rows)
  }> (t0, y)
}
"""
SHAPES = {"w": (2, 32, 3), "r": (2, 32, 8), "b": (2, 64), "v": (8,), "t0": (2, 8)}
SANITIZERS = "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
TINY = Recurrent(name="rnn", steps=6, units=8, features=4, outputs=("", "h"))


def layer_and_loops() -> OnnxModel:
    return parsed(MODEL, **{name: numbers(*shape, seed=n) for n, (name, shape) in enumerate(SHAPES.items())})


def save(path: Path, *layers: Recurrent) -> Path:
    onnx.save(recurrent(*layers).proto, path)
    return path


@pytest.mark.long
@pytest.mark.parametrize(("compiler", "weights"), [("gcc", "text"), ("clang-19", "binary"), ("gcc", "external")])
def test_sanitizers_and_strict_compilers_find_nothing(tmp_path: Path, compiler: str, weights: str) -> None:
    folder = emit(tmp_path / "p", layer_and_loops(), weights=weights)
    words = (f"CC={compiler}", f"CFLAGS={SANITIZERS}", f"WARNINGS={WARNINGS}")
    assert last(make(folder, *words, "selftest")) == "PASS"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emit(tmp_path_factory.mktemp("loops") / "tiny", recurrent(TINY), name="tiny")


def test_what_a_run_of_a_layer_is_in_c(tiny: Path, golden: Callable[[str, str], None]) -> None:
    text = (tiny / "src/tiny.c").read_text(encoding="ascii")
    begin, end = text.index("#define ARENA("), text.index("#ifndef TINY_NO_PROFILER", text.index("#define ARENA("))
    golden("package/loop_run.c", text[begin:end])


def test_a_manifest_says_what_each_step_calls(tiny: Path) -> None:
    manifest = read_manifest(tiny)
    labels = [layer["label"] for layer in manifest["layers"]]
    loop = manifest["layers"][labels.index("rnn (6 steps)")]
    assert (loop["kernel"], loop["steps"]) == ("", 6)
    assert [call["times"] for call in loop["calls"]] == [6] * len(loop["calls"])
    assert loop["macs"] == 6 * sum(call["macs"] for call in loop["calls"]) == 6 * 8 * 32
    calls = {kernel["name"]: kernel["calls"] for kernel in manifest["kernels"]}
    assert [calls[name] for name in kernels_of_layer(loop)] == [6] * len(loop["calls"])
    assert {place["tensor"] for place in loop["written"]} <= {"", "h"}


def test_a_kernel_of_a_step_is_explained_by_its_label(tiny: Path) -> None:
    manifest = read_manifest(tiny)
    (loop,) = (layer for layer in manifest["layers"] if layer.get("calls"))
    number = manifest["layers"].index(loop)
    for call in loop["calls"]:
        found = explain(tiny, call["label"])
        assert (found.kernel, found.layers, found.calls) == (call["kernel"], (f"{number}: rnn (6 steps)",), 6)
    assert explain(tiny, "rnn (6 steps)").kernel == loop["calls"][0]["kernel"], "most work is its product"
    assert explain(tiny, str(number)).kernel == loop["calls"][0]["kernel"]


def test_of_a_loop_the_kernel_that_takes_most_time_is_explained(tiny: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny, tmp_path / "p"))
    manifest = read_manifest(folder)
    (loop,) = (layer for layer in manifest["layers"] if layer.get("calls"))
    for kernel in manifest["kernels"]:
        slow = kernel["name"] == kernels_of_layer(loop)[-1]
        kernel["provenance"] |= {"origin": "record", "median_us": 2.0 if slow else 1.0}
    (folder / "MANIFEST.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert explain(folder, "rnn (6 steps)").kernel == kernels_of_layer(loop)[-1] != kernels_of_layer(loop)[0]


@pytest.mark.long
def test_a_report_has_the_calls_of_a_step_below_their_loop(tmp_path: Path) -> None:
    folder = emit(tmp_path / "p", layer_and_loops(), measured_us=1.5)
    text = (folder / "REPORT.md").read_text(encoding="utf-8").replace("\\", "")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    start = next(number for number, row in enumerate(rows) if row[1] == "s (5 steps)")
    assert [(row[1], row[5]) for row in rows[start : start + 5]] == [
        ("s (5 steps)", "30.00"),
        ("each of its 5 steps", "6.00"),
        ("- s (multiply)", "1.50"),
        ("- s (multiply_add_add_tanh), 2 times", "1.50"),
        ("- s (copy)", "1.50"),
    ]
    times = [float(row[5]) for row in rows if len(row) == 7 and row[0].isdigit()]
    assert next(row[5] for row in rows if row[1] == "**sum**") == f"{sum(times):.2f}", "each layer once"


@pytest.mark.long
def test_the_profiler_sees_a_loop_as_one_layer(tiny: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny, tmp_path / "p"))
    printed = json.loads(last(make(folder, f"WARNINGS={WARNINGS}", "bench", "BENCH_ARGS=3 0.01")))
    assert [layer["name"] for layer in printed["layers"]] == [
        layer["label"] for layer in read_manifest(folder)["layers"]
    ]
    assert [layer.name for layer in bench(tiny, runs=3, seconds=0.01).layers].count("rnn (6 steps)") == 1


@pytest.mark.long
def test_threads_share_the_calls_of_a_step(tmp_path: Path) -> None:
    """While they wait, they read the weights of the next call: in a loop of one shared call, that is the same one."""
    layer = Recurrent(name="rnn", steps=4, batch=4, units=256, features=64, lengths=(2, 4, 3, 1))
    folder = emit(tmp_path / "p", recurrent(layer), threads=2, name="wide", weights="binary")
    text = (folder / "src/wide.c").read_text(encoding="ascii")
    (steps,) = re.findall(r"static void wide__loop_0.*?^}$", text, re.MULTILINE | re.DOTALL)
    (product,) = re.findall(
        r"wide__pool_ahead\(s->pool, (WEIGHT\(\d+\)), \d+u\);\n +wide__k_matmul\w+\((.*), s->pool\)", steps
    )
    assert product[0] in product[1]
    assert last(make(folder, f"WARNINGS={WARNINGS}", "selftest")) == "PASS"


@pytest.mark.long
def test_threads_do_not_read_weights_ahead_that_each_step_has_its_slice_of(tmp_path: Path) -> None:
    text = """
    g (float[4,256] x) => (float[4,256] y) {
      first = MatMul (x, w)
      y = Scan <num_scan_inputs = 1, body = q (float[4,256] s, float[256,256] e) => (float[4,256] t) {
        product = MatMul (s, e)
        t = Tanh (product)
      }> (first, rows)
    }
    """
    model = parsed(text, w=numbers(256, 256) / 16, rows=numbers(3, 256, 256, seed=1) / 16)
    folder = emit(tmp_path / "p", model, threads=2, name="wide", weights="binary")
    text = (folder / "src/wide.c").read_text(encoding="ascii")
    assert re.search(r"wide__k_matmul\w+\([^;]*step[^;]*, s->pool\);", text)
    assert "step" not in "".join(re.findall(r"pool_ahead\(.*\);", text))
    assert last(make(folder, f"WARNINGS={WARNINGS}", "selftest")) == "PASS"


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (tenth_added, r"layer 1, rnn \(6 steps\), departs first: .* it has the default schedule, and"),
        (trapped, r"the run ends in layer 1, rnn \(6 steps\) \(killed by signal \d+\)"),
    ],
)
def test_a_loop_with_a_wrong_kernel_is_blamed(
    change: Callable[[str], str], said: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = save(tmp_path / "m.onnx", TINY)
    (loop,) = (layer for layer in read_manifest(tiny)["layers"] if layer.get("calls"))
    spoiled(monkeypatch, in_kernel(kernels_of_layer(loop)[-1], change))
    with pytest.raises((WrongResult, SelfTestFailed), match=said):
        api.build(settings_for(model), events=lambda _: None)


@pytest.mark.long
def test_each_layer_of_a_right_package_is_right_alone(tmp_path: Path) -> None:
    model = save(tmp_path / "m.onnx", TINY, Recurrent("GRU", name="gru", direction="bidirectional", batch=2))
    settings = settings_for(model)
    api.build(settings, events=lambda _: None)
    errors = api.verify(settings.out, None, model, per_layer=lambda _: None).layers
    loops = [error.name for error in errors if "steps" in error.name]
    assert loops == ["rnn (6 steps)", "gru (5 steps)", "gru (5 steps) #2"]
    assert not any(error.departs for error in errors)


def test_a_package_for_a_gpu_has_all_steps_one_after_another(tmp_path: Path) -> None:
    folder = emit(tmp_path / "p", recurrent(TINY), target=load_board_kind("cuda-generic"), name="tiny")
    manifest = read_manifest(folder)
    assert not [layer for layer in manifest["layers"] if layer.get("calls") or "steps)" in layer["label"]]
    steps = [layer["label"] for layer in manifest["layers"] if layer["label"].endswith("[5]")]
    assert len(steps) == len([layer for layer in manifest["layers"] if layer["label"].endswith("[0]")]) > 0
    assert "for (unsigned step" not in (folder / "src/tiny.cu").read_text(encoding="ascii")
