"""Inputs that the runner draws are those of the export, to the last bit; what does not fit into a bundle is told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.bundle.drawn import Axis, Drawn, axes_of, drawn_input
from edgetune.bundle.export import BundleRequest, export_bundle
from edgetune.bundle.kinds import cubins
from edgetune.bundle.kinds.kind import TriedAlready
from edgetune.bundle.manifest import RESULTS, read_manifest
from edgetune.bundle.plan import LEAST_ROOM
from edgetune.bundle.running import run_bundle
from edgetune.events import Event
from edgetune.graph.precision import with_precision
from edgetune.graph.program import Kernel, Param
from edgetune.pipeline.model_formats import read_model
from tests.bundle.bundle_sample import MODEL, compiled, environment, export, runner_sources, saved
from tests.cuda.cpu_check import gpu

_MAIN = """
#define main runner
#include "common.c"
#undef main

const Member member;

int main(void)
{
    static char line[LINE];
    static Buffer buffer;

    while (fgets(line, sizeof line, stdin)) {
        if (!reads_drawing(line, &buffer))
            return 1;
        fwrite(drawn(&buffer), 1, buffer.bytes, stdout);
    }
    return 0;
}
"""

TYPES = ["float64", "float32", "float16", "bfloat16", "bool", "int8", "uint8", "int16", "int32", "uint32", "int64"]


@pytest.fixture(scope="module")
def drawing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that draws what the lines of a plan say."""
    folder = tmp_path_factory.mktemp("drawing")
    place = Path(runner_sources(folder, "cubins")[0]).parent
    (place / "main.c").write_text(_MAIN)
    subprocess.run(["gcc", "-O2", "main.c", "draw.c", "-o", "main", "-lm"], cwd=place, check=True)
    return place / "main"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (7,), (4096, 3), (5, 1 << 20)])
def test_the_runner_draws_the_same_bits(drawing: Path, dtype: str, shape: tuple[int, ...]) -> None:
    """Of weights with few and with many terms in a sum: the exponents of float16 end at the last shape."""
    one = drawn_input(Param("w", shape, dtype, "constant"), (), seed=12345)
    line = one.line(one.array, (Axis(one.array.size, one.array.size, 1),))
    done = subprocess.run([drawing], input=line.encode(), capture_output=True, check=True)
    assert done.stdout == one.array.tobytes()


def test_the_runner_draws_in_the_order_of_a_packed_layout_with_padding(drawing: Path) -> None:
    one = Drawn((5, 3, 7), "float32", 3, 1, 0)
    places = np.pad(np.arange(1, 106).reshape(5, 3, 7).transpose(1, 2, 0), ((0, 0), (0, 9), (0, 3)))
    axes = axes_of(places)
    assert axes == (Axis(3, 3, 7), Axis(16, 7, 1), Axis(8, 5, 21))
    packed = np.append(np.float32(0), one.array)[places]
    done = subprocess.run([drawing], input=one.line(packed, axes).encode(), capture_output=True, check=True)
    assert done.stdout == packed.tobytes()


def test_a_layout_that_no_steps_give_is_not_drawn() -> None:
    assert axes_of(np.array([[1, 2, 3], [6, 5, 4]])) is None
    assert axes_of(np.array([2, 1])) is None


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_drawn_values_have_the_scale_of_random_inputs(dtype: str) -> None:
    inputs = drawn_input(Param("x", (64, 64), dtype, "input"), (), 1).array.astype(np.float64)
    weights = drawn_input(Param("w", (64, 64), dtype, "constant"), (), 2).array.astype(np.float64)
    assert 0.5 < inputs.std() < 2
    assert 0.5 < (inputs @ weights).std() < 2
    assert abs(inputs.mean()) < 0.1
    assert np.all(inputs != 0)


@pytest.mark.long
@pytest.mark.nvcc
def test_the_weights_of_a_large_product_do_not_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 MiB of weights, more than a bundle may have."""
    weights = np.zeros((64, 1 << 18), np.float32)
    model = saved(tmp_path / "m.onnx", ["y = MatMul x w"], [("y", onnx.TensorProto.FLOAT)], w=weights)
    sent = tmp_path / "sent"
    counts = export_bundle(read_model(model).program(), gpu(), sent, BundleRequest(1, seed=1), lambda _: None)
    assert counts["candidates"] == 1
    assert sum(path.stat().st_size for path in sent.rglob("*")) < 2 << 20
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", str(compiled(tmp_path)[1]))
    run_bundle(sent)
    assert (sent / RESULTS).read_text().split()[2] == "ok"


@pytest.mark.long
@pytest.mark.nvcc
def test_padded_weights_of_tensor_cores_do_not_travel(tmp_path: Path) -> None:
    program = with_precision(read_model(MODEL).program(), "fp16")
    export_bundle(program, gpu(), tmp_path / "sent", BundleRequest(2, seed=1), lambda _: None)
    plan = (tmp_path / "sent/plan.txt").read_text()
    assert "\nbuffer i " not in plan
    assert "\ndrawn h " in plan


@pytest.mark.long
@pytest.mark.nvcc
def test_another_drawing_than_that_of_the_export_is_refused_before_the_first_candidate(tmp_path: Path) -> None:
    export(tmp_path / "sent", candidates=1)
    runner, stub = compiled(tmp_path)
    plan = tmp_path / "sent/plan.txt"
    lines = plan.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("drawn "))
    words = lines[first].split()
    words[3] = str(int(words[3]) + 1)
    lines[first] = " ".join(words)
    plan.write_text("\n".join([*lines, ""]))
    command = [str(runner), str(tmp_path / "sent")]
    done = subprocess.run(command, env=environment(stub), capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert "draws other inputs than the one that exported the bundle" in done.stderr
    assert (tmp_path / "sent" / RESULTS).read_text() == ""


def _names(folder: Path) -> list[str]:
    return [one.workload_name for one in read_manifest(folder)[0].candidates]


@pytest.mark.long
@pytest.mark.nvcc
def test_a_full_bundle_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    """The size counts for bundles that are carried, and no kernel waits for ever."""
    program, events, most = read_model(MODEL).program(), list[Event](), LEAST_ROOM + (40 << 10)
    first = export_bundle(program, gpu(), tmp_path / "1", BundleRequest(1, 1, most_bytes=most), events.append)
    assert sum(path.stat().st_size for path in (tmp_path / "1").rglob("*") if path.is_file()) <= most
    left = first["left_out"]
    assert isinstance(left, int)
    assert 0 < left < 6
    said = " ".join(str(event.data["message"]) for event in events if event.kind == "warning")
    assert f"{left} of 6 kernels are left to the next round of `edgetune tune --via bundle`" in said
    done = read_manifest(tmp_path / "1")[0].candidates

    def known(kernel: Kernel) -> TriedAlready:
        return TriedAlready(frozenset(one.candidate for one in done if one.workload == kernel.workload))

    export_bundle(program, gpu(), tmp_path / "2", BundleRequest(1, 2, known, most_bytes=most), lambda _: None)
    assert set(_names(tmp_path / "2")[:left]) == {kernel.name for kernel in program.kernels} - set(
        _names(tmp_path / "1")
    )
    counts = export_bundle(program, gpu(), tmp_path / "3", BundleRequest(1, 1, most_bytes=None), lambda _: None)
    assert (counts["left_out"], counts["candidates"]) == (0, 6)


@pytest.mark.long
@pytest.mark.nvcc
def test_outputs_that_no_bundle_holds_are_told_before_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubins, "compile_text", None)
    program, events = read_model(MODEL).program(), list[Event]()
    request = BundleRequest(1, 1, most_bytes=LEAST_ROOM)
    counts = export_bundle(program, gpu(), tmp_path / "sent", request, events.append)
    assert (counts["candidates"], counts["left_out"]) == (0, 6)
    assert not (tmp_path / "sent").exists()
    said = [str(event.data["message"]) for event in events if event.kind == "warning"]
    assert len(said) == 6
    assert "with --via USER@HOST on one behind SSH): it keeps its default schedule" in said[0]


def test_a_hostile_drawing_is_refused(drawing: Path) -> None:
    for line in (
        "drawn o 8 1 1 0 0 1 3:3:1",
        "drawn o 8 1 1 0 0 1 2:3:1",
        "drawn x 8 1 1 0 0 1 2:2:1",
        "drawn o 8 1 1 0 0 0",
        "drawn o 8 1 1 0 0 2 4611686018427387904:1:1 4:1:1",
        "drawn o 9 1 1 0 0 1 2:2:1",
    ):
        assert subprocess.run([drawing], input=line.encode(), check=False).returncode == 1, line
