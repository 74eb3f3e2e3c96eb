"""`edgetune inspect`: what it says of a model and of a board, in words and as JSON, and that it builds nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgetune.cli.inspect import _on_board
from edgetune.cli.main import run
from edgetune.pipeline.inspection import Inspection, inspect_model
from edgetune.pipeline.schema import schemas
from edgetune.target.board_kind import this_clock_mhz
from edgetune.target.target import load_board_kind

ROOT = Path(__file__).parents[2]
DS_CNN = ROOT / "examples" / "models" / "ds_cnn.onnx"
KWS = Path(__file__).parents[3] / "shared" / "models" / "mlperf_tiny" / "kws_int8.tflite"
ODD = """
<ir_version: 9, opset_import: ["" : 18, "com.example" : 3], producer_name: "maker">
g (float[batch, 4] x, float[2, 3] state) => (float[batch, 2] y, float[2, 3] stateN)
{
    [a] u = com.example.Odd (x)
    [b] v = com.example.Even (u)
    [c] w = com.example.Odd (v)
    [d] q = com.example.Even (w)
    [e] r = com.example.Odd (q)
    [f] y = com.example.Last (r)
    stateN = Relu (state)
}
"""


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(ODD), tmp_path / "odd.onnx")
    return tmp_path / "odd.onnx"


def test_the_schema_is_current() -> None:
    for name, text in schemas().items():
        assert (ROOT / "schemas" / name).read_text(encoding="utf-8") == text, "run `make schemas`"


def test_json_is_what_the_schema_says(
    odd: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(odd.parent)
    wake_word = ROOT.parent / "shared" / "models" / "mlperf_tiny" / "sww_int8.tflite"
    step = [str(wake_word), "--stream", "serving_default_input_1:0:1"]
    for words in (["odd.onnx"], ["odd.onnx", "--board", "rpi4"], [str(DS_CNN), "--board", "mps2-an500"], step):
        assert run(["inspect", *words, "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert Inspection.model_validate_json(json.dumps(printed)).model_dump(mode="json") == printed
        assert printed.keys() == set(json.loads(schemas()["inspect.schema.json"])["required"]) | {"board", "step"}
    assert [path.name for path in odd.parent.iterdir()] == ["odd.onnx"]


def test_words_name_every_unsupported_node_and_the_state(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(odd)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "odd.onnx: ONNX, opset 18, com.example 3, IR version 9, written by maker"
    assert "input 'x': 1 x 4, float32" in lines
    assert "state: input 'state' and output 'stateN' look like the state of a recurrent model" in lines
    assert "operators: 3 com.example::Odd, 2 com.example::Even, 1 com.example::Last, 1 Relu" in lines
    start = lines.index("unsupported: 6 nodes")
    nodes = lines[start + 1 : start + 7]
    assert [line.split("'")[1] for line in nodes] == list("abcdef")
    assert "note: axis 0 (batch) of input 'x' becomes 1" in "\n".join(lines)


def test_words_for_a_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(DS_CNN), "--board", "mps2-an500"]) == 0
    said = capsys.readouterr().out
    assert "unsupported: nothing\nmultiply-adds: 2,656,768\nweights: 97.3 KiB of float32\n" in said
    assert "least RAM: 62.5 KiB for tensors between layers (by the largest live set), 2.0 KiB for" in said
    assert "inputs and outputs; with --io arena, 62.5 KiB for both" in said
    assert "flash of mps2-an500: 3.5 MiB suffices (weights alone 97.3 KiB)" in said
    assert "RAM of mps2-an500: 3.5 MiB suffices (at least 64.5 KiB)" in said
    assert "time on mps2-an500: an estimate, not a measurement: at least 106 ms a run, limited by multiply-adds" in said


def test_memory_that_does_not_suffice_and_a_clock_that_nobody_states(tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[1, 4] x) => (float[1, 9] y) { y = MatMul (x, w) }'
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((4, 9), np.float32), "w"))
    onnx.save(proto, tmp_path / "m.onnx")
    target = load_board_kind("mps2-an500")
    small = target.model_copy(update={"defaults": target.defaults.model_copy(update={"memory": None})})
    space = small.memory_map.model_copy(  # type: ignore[attr-defined]  # a target with a CPU has one
        update={"flash": small.memory_map.flash.model_copy(update={"bytes": 100})}  # type: ignore[attr-defined]
    )
    small = small.model_copy(update={"memory_map": space, "clock_mhz": None})
    board = inspect_model(tmp_path / "m.onnx", {}, {}, small).board
    assert board is not None
    assert (board.flash.needed_bytes, board.flash.available_bytes, board.flash.suffices) == (144, 100, False)
    assert (board.ram.needed_bytes, board.ram.suffices) == (52, True)
    assert (board.time, board.no_time) == (None, "the file of target 'mps2-an500' states no clock_mhz")
    free = inspect_model(tmp_path / "m.onnx", {}, {}, load_board_kind("rpi4")).board
    assert free is not None
    assert (free.flash.available_bytes, free.flash.suffices, free.ram.suffices) == (None, None, None)


def test_the_estimate_is_the_larger_of_computing_and_reading() -> None:
    rpi = inspect_model(DS_CNN, {}, {}, load_board_kind("rpi4")).board
    gpu = inspect_model(DS_CNN.with_name("ad_ae.onnx"), {}, {}, load_board_kind("h200")).board
    assert rpi is not None
    assert gpu is not None
    assert rpi.time is not None
    assert gpu.time is not None
    assert (rpi.time.limited_by, gpu.time.limited_by) == ("multiply-adds", "reading weights")
    assert rpi.time.seconds == pytest.approx(2656768 / (4 * 1.5e9))
    assert gpu.time.is_estimate
    assert gpu.time.assumes.startswith("16896 float32 multiply-adds per cycle at 1980 MHz on the whole GPU")


@pytest.mark.parametrize(
    ("board", "per_cycle"),
    [("mps3-an547", 16), ("mps2-an386", 2), ("mps2-an385", 1), ("cortex-m0plus", 1), ("rpi4", 8)],
)
def test_the_estimate_of_a_model_of_bytes_counts_the_products_of_an_instruction(board: str, per_cycle: int) -> None:
    found = inspect_model(KWS, {}, {}, load_board_kind(board)).board
    assert found is not None
    assert found.time is not None
    assert found.time.assumes.startswith(f"{per_cycle} int8 multiply-adds per cycle")


def test_regions_of_ram_say_which_of_them_holds_all_tensors() -> None:
    board = load_board_kind("stm32h7a3")
    for name, whole in (("kws_int8", "dtcm holds all of them"), ("resnet_large_int8", "axi holds all of them")):
        found = inspect_model(KWS.with_name(f"{name}.tflite"), {}, {}, board).board
        assert found is not None
        assert [region.name for region in found.regions] == ["dtcm", "axi"]
        line = "regions for tensors between layers: dtcm with 96.0 KiB, axi with 960.0 KiB; "
        assert line + whole in _on_board(found)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["gone.onnx"], 4),
        ([], 2),
        ([str(DS_CNN), "--board", "rpi44"], 7),
        ([str(DS_CNN), "--shape", "in0=2,1,49,10"], 4),
        ([str(DS_CNN), "--dim", "t=1"], 4),
        ([str(DS_CNN), "--dim", "t=1", "--dim", "t=2"], 2),
    ],
)
def test_mistakes_have_the_codes_of_other_verbs(words: list[str], code: int) -> None:
    assert run(["inspect", *words]) == code


def test_the_clock_of_this_machine(tmp_path: Path) -> None:
    highest, cpuinfo = tmp_path / "max", tmp_path / "cpuinfo"
    assert this_clock_mhz(highest, cpuinfo) is None
    cpuinfo.write_text("processor : 0\ncpu MHz\t\t: 2445.406\n")
    assert this_clock_mhz(highest, cpuinfo) == 2445.406
    highest.write_text("3600000\n")
    assert this_clock_mhz(highest, cpuinfo) == 3600
