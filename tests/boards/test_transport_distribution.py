"""A transport of an installed distribution: a target names it, and boards are tuned, checked and listed by it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from edgetune.target.target import load_target
from tests.distribution_sample import edgetune, install

DESK = """\
from edgetune.boards.process import ProcessReach
from edgetune.boards.transports.agent import AgentTransport


class Desk(AgentTransport):
    without_address = "its agent is a process of this machine"
    shown = "agent here"

    def link(self, target, address, on_event):
        return ProcessReach(target.name, target)


DESK = Desk()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("desk"), "edgetune.transports", "desk", "edgetune_desk:DESK", DESK)


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """The file of a board that is this machine, behind its agent."""
    facts = load_target("host").model_dump(mode="json", exclude_defaults=True)
    facts |= {"name": "bench", "description": "this machine behind its agent", "reach": "desk"}
    path = tmp_path / "bench.yaml"
    path.write_text(yaml.safe_dump(facts), encoding="utf-8")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weights = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.long
def test_a_board_is_tuned_by_the_transport_that_its_file_names(
    site: Path, board: Path, model: Path, tmp_path: Path
) -> None:
    words = ["tune", str(model), "--board", str(board), "--trials", "2", "-o", "out", "--db", "records.db", "--json"]
    done = edgetune(words, site, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["measured_kernels"] == 1
    assert told["verified"]["ran_on"].startswith("board bench")
    shown = edgetune(["records", "list", "--db", "records.db", "--json"], site, cwd=tmp_path)
    records = json.loads(shown.stdout)
    assert {record["board"] for record in records} == {"bench"}
    assert any(record["status"] == "ok" for record in records)


@pytest.mark.long
def test_its_boards_are_listed_checked_and_set_up(site: Path, board: Path, tmp_path: Path) -> None:
    folder = tmp_path / "edgetune" / "targets"
    folder.mkdir(parents=True)
    shutil.copy(board, folder)
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    listed = edgetune(["boards", "list"], site, cwd=tmp_path, environment={**home, "COLUMNS": "200"})
    (row,) = [line for line in listed.stdout.splitlines() if line.startswith("bench ")]
    assert ("agent here" in row, "on the board" in row) == (True, True)
    for verb, check in (("check", "libc"), ("setup", "agent")):
        done = edgetune(["boards", verb, "bench", "--json"], site, cwd=tmp_path, environment=home)
        assert done.returncode == 0, done.stdout + done.stderr
        assert [found["ok"] for found in json.loads(done.stdout) if found["check"] == check] == [True]
    (folder.parent / "boards.yaml").write_text("boards:\n  a: {target: bench, ssh: h}\n", encoding="utf-8")
    done = edgetune(["boards", "list"], site, cwd=tmp_path, environment=home)
    assert done.returncode == 3
    assert "line 2: 'boards.a.target' is 'bench', which needs no address: its agent is a process of" in done.stderr


@pytest.mark.long
def test_without_the_distribution_its_name_is_unknown(board: Path, model: Path, tmp_path: Path) -> None:
    done = edgetune(["tune", str(model), "--board", str(board)], cwd=tmp_path)
    assert done.returncode == 3
    assert "'reach' must be the name of a transport, ssh or none, not 'desk': valid are" in done.stderr
    done = edgetune(["tune", str(model), "--board", "rpi4", "--rpc", "tmv"], cwd=tmp_path)
    assert done.returncode == 2
    assert "must be the name of a transport to an address, not 'tmv': did you mean 'tvm'?" in done.stderr


def test_a_list_of_boards_imports_neither_ssh_nor_tvm(tmp_path: Path) -> None:
    for name in ("paramiko", "tvm"):
        folder = tmp_path / "broken" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(f"raise SystemExit('{name} was imported')\n", encoding="utf-8")
    done = edgetune(["boards", "list"], tmp_path / "broken", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
