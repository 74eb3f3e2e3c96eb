"""Bad input through the real command line: one clear sentence, its exit code, and nothing half-written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.acceptance.case import EXAMPLES, STRICT, command_line, edgetune, last_line, run, run_status
from tests.acceptance.refusals import dense, refused, save
from tests.missing_tools import require_mounts

MODEL = EXAMPLES / "ds_cnn.onnx"
OUT = ("--board", "host", "-o", "out")


@pytest.mark.parametrize("verb", ["build", "tune"])
def test_a_missing_model(tmp_path: Path, verb: str) -> None:
    assert "gone.onnx does not exist" in refused(4, verb, "gone.onnx", *OUT, cwd=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(np.random.default_rng(3).bytes(5000), "not an ONNX file", id="random"),
        pytest.param(MODEL.read_bytes()[:60_000], "cut short", id="truncated"),
        pytest.param(MODEL.read_bytes()[:-1], "cut short", id="last byte missing"),
        pytest.param(b"PK\x03\x04 not a network", "not an ONNX file", id="another format"),
    ],
)
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "bad.onnx").write_bytes(content)
    sentence = refused(4, "build", "bad.onnx", *OUT, cwd=tmp_path)
    assert "bad.onnx" in sentence
    assert words in sentence


@pytest.mark.long
@pytest.mark.parametrize(("operator", "domain"), [("Frobnicate", "com.example"), ("StringNormalizer", "")])
def test_an_unsupported_operator(tmp_path: Path, operator: str, domain: str) -> None:
    kind = TensorProto.FLOAT if domain else TensorProto.STRING
    node = helper.make_node(operator, ["x"], ["y"], name="the node", domain=domain)
    ends = [helper.make_tensor_value_info(name, kind, [4]) for name in ("x", "y")]
    save(tmp_path / "odd.onnx", [node], ends[:1], ends[1:], [], domain)
    sentence = refused(5, "build", "odd.onnx", *OUT, cwd=tmp_path)
    assert operator in sentence
    assert "the node" in sentence
    assert "replace" in sentence


@pytest.mark.long
def test_an_open_shape(tmp_path: Path) -> None:
    dense(tmp_path / "open.onnx", batch="rows")
    sentence = refused(6, "build", "open.onnx", *OUT, cwd=tmp_path)
    assert "--shape x=1,8" in sentence
    assert "--dim rows=1" in sentence


HOSTILE = {
    "given": '*/ int x; /* "\\ ??/ %s',
    "answer": "int",
    "middle": ("a b", "a-b"),
}
ODD = {"given": "Größe/0:λ", "answer": "größe_0__", "middle": (" ", "_")}


@pytest.mark.long
@pytest.mark.parametrize(("name", "names"), [("int", HOSTILE), ("2 -- Ünï", ODD)])
def test_hostile_names_are_made_safe(tmp_path: Path, name: str, names: dict[str, str]) -> None:
    dense(tmp_path / f"{name}.onnx", batch="N", **names)  # type: ignore[arg-type]  # one of them is a pair
    shape = f"{names['given']}=1,8"
    done = edgetune("build", f"{name}.onnx", *OUT, "--shape", shape, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for compiler in ("gcc", "clang-19"):
        words = (f"CC={compiler}", f"WARNINGS={STRICT} -trigraphs", "selftest", "example")
        assert "PASS" in run("make", "-s", *words, cwd=tmp_path / "out").splitlines()
    done = edgetune("verify", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(f"model: {MODEL}\nbudgte:\n  trials: 3\n", ("line 2", "'budget'"), id="typo"),
        pytest.param(f"model: {MODEL}\nseed: many\n", ("line 2", "seed"), id="wrong type"),
        pytest.param(f"model: {MODEL}\nmemory:\n\tram: 1k\n", ("line 3", "tab"), id="tab"),
        pytest.param(f"model: {MODEL}\nboards: [host\n", ("edgetune.yaml",), id="not YAML"),
    ],
)
def test_a_wrong_project_file(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    (tmp_path / "edgetune.yaml").write_text(text, encoding="utf-8")
    sentence = refused(3, "build", *OUT, cwd=tmp_path)
    assert all(word in sentence for word in ("edgetune.yaml", *words)), sentence


@pytest.mark.long
def test_an_unknown_board(tmp_path: Path) -> None:
    assert "'rpi4'" in refused(7, "build", MODEL, "--board", "rpi44", cwd=tmp_path)


@pytest.mark.long
def test_a_board_that_cannot_be_measured(tmp_path: Path) -> None:
    assert "edgetune build" in refused(8, "tune", MODEL, "--board", "rpi4", cwd=tmp_path)


@pytest.mark.long
def test_no_compiler(tmp_path: Path) -> None:
    sentence = refused(9, "tune", MODEL, *OUT, cwd=tmp_path, environment={"PATH": str(tmp_path)})
    assert "gcc" in sentence
    assert "apt-get install" in sentence


@pytest.mark.long
def test_no_space_left(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    require_mounts()
    # A user namespace of its own may mount a disk of 64 kB; what is on it goes with the process.
    script = f'mount -t tmpfs -o size=64k none {room} && exec "$@"; exit 99'
    words = ["build", str(MODEL), "--board", "host", "-o", str(room / "out")]
    said = run_status("unshare", "-rm", "sh", "-c", script, "sh", *command_line(*words), cwd=tmp_path)
    assert said.returncode == 15, said.stderr
    assert last_line(said.stderr).startswith("edgetune: error: no space")


@pytest.mark.long
def test_an_output_folder_that_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0o555)
    try:
        sentence = refused(12, "build", MODEL, "--board", "host", "-o", "closed/out", cwd=tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o755)
    assert "closed" in sentence
    assert "-o" in sentence


@pytest.mark.long
def test_an_output_folder_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine", encoding="utf-8")
    assert "not a package" in refused(12, "build", MODEL, *OUT, cwd=tmp_path)
    assert "is a file" in refused(12, "build", MODEL, "--board", "host", "-o", "out/thesis.txt", cwd=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("words", [("build", MODEL, *OUT), ("tune", MODEL, *OUT), ("records", "list")])
def test_a_database_of_another_version(tmp_path: Path, words: tuple[str | Path, ...]) -> None:
    from edgetune.records import RecordStore

    RecordStore.open(tmp_path / "old.db").close()
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA user_version=99")
    sentence = refused(13, *words, "--db", "old.db", cwd=tmp_path)
    assert "version 99" in sentence
    assert "export" in sentence


@pytest.mark.long
@pytest.mark.parametrize(("limit", "words"), [("ram: 1k", ("arena", "largest tensors")), ("flash: 1k", ("weights",))])
def test_a_memory_limit(tmp_path: Path, limit: str, words: tuple[str, ...]) -> None:
    (tmp_path / "edgetune.yaml").write_text(f"model: {MODEL}\nmemory:\n  {limit}\n", encoding="utf-8")
    sentence = refused(14, "build", *OUT, cwd=tmp_path)
    assert all(word in sentence for word in (*words, "bytes")), sentence


@pytest.mark.long
def test_a_model_of_strings(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.STRING, [4]) for name in ("x", "y")]
    save(tmp_path / "words.onnx", [node], ends[:1], ends[1:], [])
    assert "strings" in refused(4, "build", "words.onnx", *OUT, cwd=tmp_path)
