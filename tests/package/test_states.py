"""Packages that keep a state: their self-tests under compilers and sanitizers, and what these notice."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import edgetune
from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.package.manifest import MANIFEST
from edgetune.package.states import KeptState
from tests import package_sample as sample
from tests.package.test_build import WARNINGS, last, make

FIRST_VALUES = {
    ("float16", 2048): "0x6800",
    ("bfloat16", -3): "0xc040",
    ("float32", 2): "0x1p+1f",
    ("int8", -128): "-128",
    ("int64", -(2**24)): "-16777216LL",
    ("bool", 1): "1",
}

WORD = re.compile(r"__LAYOUT 0x[0-9a-f]{16}u")


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keeping") / "package"
    sample.emit_keeping(folder)
    return folder


def copy_of(package: Path, place: Path) -> Path:
    return Path(shutil.copytree(package, place / "package"))


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_no_warning_in_library_tests_and_example(keeping: Path, tmp_path: Path, compiler: str) -> None:
    folder = copy_of(keeping, tmp_path)
    told = make(folder, f"CC={compiler}", f"WARNINGS={WARNINGS}", "selftest", "example")
    assert last(told) == "PASS"
    assert [line.split()[1] for line in told.splitlines() if line.startswith("case ")][-5:] == list("01234")
    subprocess.run(["build/keeping_example"], cwd=folder, capture_output=True, check=True)
    assert json.loads(last(make(folder, f"CC={compiler}", "bench", "BENCH_ARGS=12 0.01")))["runs"] == 12


@pytest.mark.long
def test_sanitizers_find_nothing(keeping: Path, tmp_path: Path) -> None:
    flags = "CFLAGS=-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    assert last(make(copy_of(keeping, tmp_path), flags, "selftest")) == "PASS"


@pytest.mark.long
def test_without_profiler_and_with_another_first_value(tmp_path: Path) -> None:
    sample.emit_keeping(tmp_path / "package", zero=2)
    told = make(tmp_path / "package", f"WARNINGS={WARNINGS} -DKEEPING_NO_PROFILER", "selftest")
    assert last(told) == "PASS"


@pytest.mark.long
@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("    memset(s->kept, 0, sizeof s->kept);\n", "", "a reset gives the first state"),
        ("STATE(KEPT_2), outputs->y", "outputs->y, outputs->y", "an output is too far from its golden vector"),
        ("    memcpy(s->kept, from", "    memcpy(s->kept, s->kept", "an output is too far from its golden vector"),
        ("sizeof s->kept[0]) != 0", "0) != 0", "a state of another layout is refused"),
    ],
    ids=["no reset", "no state read", "no state loaded", "any layout loaded"],
)
def test_the_self_test_notices(keeping: Path, tmp_path: Path, right: str, wrong: str, said: str) -> None:
    folder = copy_of(keeping, tmp_path)
    source = folder / "src" / "keeping.c"
    text = source.read_text(encoding="utf-8")
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong), encoding="utf-8")
    done = subprocess.run(["make", "selftest"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"FAIL: {said}" in done.stdout


@pytest.mark.parametrize(("dtype", "zero"), FIRST_VALUES)
def test_a_first_value_is_a_constant_of_the_type_that_c_has_for_it(dtype: str, zero: int) -> None:
    assert KeptState("h", "h_next", (2,), dtype, zero=zero).zero_literal == FIRST_VALUES[dtype, zero]


@pytest.mark.long
def test_a_first_value_of_16_bits_is_what_the_model_gets(tmp_path: Path) -> None:
    """The build itself compares the package with the model."""
    np.save(tmp_path / "first.npy", np.full(3, -2048, np.float16))
    kind = TensorProto.FLOAT16
    sides = {"x": TensorProto.FLOAT, "h": kind}, {"y": TensorProto.FLOAT, "n": kind, "o": kind}
    ends = [[helper.make_tensor_value_info(name, of, [3]) for name, of in side.items()] for side in sides]
    nodes = [helper.make_node("Relu", ["x"], ["y"]), *(helper.make_node("Identity", ["h"], [one]) for one in "no")]
    graph = helper.make_graph(nodes, "g", *ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    states = {"h": f"n:{tmp_path / 'first.npy'}"}
    flags = CommandLineFlags(model=tmp_path / "m.onnx", board="host", states=states, out=tmp_path / "package")
    api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)
    with edgetune.Package.open(tmp_path / "package") as package:
        assert package.kept["h"].dtype == np.float16
        assert package.run(x=np.zeros(3, np.float32))["o"].tolist() == [-2048] * 3


def test_header_and_manifest_say_what_is_kept(keeping: Path) -> None:
    header = (keeping / "include" / "keeping.h").read_text(encoding="utf-8")
    assert "#define KEEPING_STATE_BYTES 136u" in header
    assert "byte 8: 4x8 float, 128 bytes: h, which is h_next of the run before" in header
    assert "uint64_t opaque[25];" in header
    assert "Nothing is kept" not in header
    manifest = json.loads((keeping / MANIFEST).read_text(encoding="utf-8"))
    (state,) = manifest["states"]
    assert (state["input"], state["output"], state["offset"], state["bytes"]) == ("h", "h_next", 8, 128)
    assert [tensor["name"] for tensor in (*manifest["inputs"], *manifest["outputs"])] == ["x", "y"]
    assert manifest["memory"]["state_bytes"] == 136
    assert manifest["layers"][1]["written"] == [{"tensor": "", "offset": 8, "bytes": 128, "in_state": True}]


def test_another_layout_has_another_word_and_a_package_without_states_has_none(keeping: Path, tmp_path: Path) -> None:
    model, cases = sample.keeping()
    other = replace(model, states=(replace(model.states[0], name_out="h_later"),))
    sample.write(sample.compiled(other, sample.sources("keeping"), sample.provenance()), cases, tmp_path / "other")
    words = [WORD.findall((folder / "src" / "keeping.c").read_text()) for folder in (keeping, tmp_path / "other")]
    assert words[0] != words[1]
    sample.emit(tmp_path / "plain")
    texts = [path.read_text(encoding="utf-8") for path in (tmp_path / "plain").rglob("*") if path.is_file()]
    assert not any("_STATE" in text or "states" in text or "kept[" in text for text in texts)
