"""Nights on an emulated board that counts instructions: a slower flag is found, and cells are cancelled and rerun."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import html5lib
import onnx
import pytest
from onnx import helper

from edgetune.farm.calendar import clock_time
from edgetune.farm.report import NightReport
from edgetune.resources import targets_dir
from tests.cli.test_termination import save_model
from tests.farm.hosts import change_budget

SECONDS = 240.0
BOARD = "counting"
TRIALS, ENDLESS = 3, 2000


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)


def environment(folder: Path) -> dict[str, str]:
    """The variables of a process for the farm in `folder`, whose target file is the user's own."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {"XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": path, "COLUMNS": "200"}


def make_farm(folder: Path) -> Path:
    """A folder with a farm of one model on one counting board."""
    save_model(folder / "m.onnx")
    (folder / "farm.yaml").write_text(
        f"models: {{m: m.onnx}}\nboards: [{BOARD}]\nbudget: {{trials: {TRIALS}}}\n"
        "folder: out\nowner: the shelf <keeper>\n"
    )
    write_target(folder, "-O3")
    return folder


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    return make_farm(tmp_path)


@pytest.fixture(scope="module")
def first_night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A farm after its first night."""
    with pytest.MonkeyPatch.context() as patch:
        folder = make_farm(tmp_path_factory.mktemp("first"))
        for name, value in environment(folder).items():
            patch.setenv(name, value)
        planned = nightly(folder, "plan")
        assert [(row["cell"], row["minutes"]) for row in planned] == [(f"m@{BOARD}", None)]
        (cell,) = nightly(folder, "run", "--now")["cells"]
        assert (cell["verdict"], cell["attempts"]) == ("first", 1)
        assert starts_by_candidate(folder) == [1] * TRIALS
    return folder


@pytest.fixture
def second(first_night: Path, tmp_path: Path) -> Path:
    """A copy of the farm after its first night."""
    shutil.copytree(first_night, tmp_path, dirs_exist_ok=True)
    return tmp_path


def write_target(folder: Path, level: str) -> None:
    text = (targets_dir() / "qemu-aarch64.yaml").read_text()
    path = folder / "config" / "edgetune" / "targets" / f"{BOARD}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("name: qemu-aarch64", f"name: {BOARD}").replace("[-O3,", f"[{level},"))


def nightly(folder: Path, *words: str, code: int = 0) -> Any:
    command = [sys.executable, "-m", "edgetune", "nightly", *words, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == code, done.stderr[-3000:]
    return json.loads(done.stdout) if done.stdout.strip() else json.loads(done.stderr.splitlines()[-1])


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "edgetune", "nightly", "run", "--now", "--json"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def candidates(folder: Path) -> int:
    logs = list((folder / "out" / "work").rglob("log"))
    return sum(log.read_text(errors="replace").count('"event": "candidate"') for log in logs)


def starts_by_candidate(folder: Path) -> list[int]:
    with sqlite3.connect(folder / "out" / "records.db") as connection:
        return [row[0] for row in connection.execute("SELECT count(*) FROM records GROUP BY workload, candidate")]


@pytest.mark.long
def test_a_slower_flag_is_found_and_stays_until_it_is_accepted(second: Path) -> None:
    farm, first = second, nightly(second, "status")
    quiet = nightly(farm, "run", "--now")
    assert [(cell["verdict"], cell["alarm"]) for cell in quiet["cells"]] == [("same", False)]
    assert nightly(farm, "plan")[0]["minutes"] > 0

    write_target(farm, "-O1")
    assert nightly(farm, "run", "--now", code=29)["counts"]["slower"] == 1
    red = NightReport.model_validate(nightly(farm, "status"))
    (cell,) = red.cells
    assert (cell.verdict, cell.unit, cell.accepted_night) == ("slower", "instructions", first["night"])
    assert cell.ratio is not None
    assert cell.ratio > 1.01
    assert cell.old == first["cells"][0]["new"]

    page = farm / "out" / "pages" / red.night
    text = (page / "index.html").read_text(encoding="utf-8")
    elements = html5lib.HTMLParser(strict=True).parse(text).iter()
    addresses = [value for element in elements for name, value in element.attrib.items() if name in {"src", "href"}]
    assert [address for address in addresses if not address.startswith("#")] == []
    assert cell.cause.startswith("toolchain: +")
    assert cell.factors == ("toolchain",)
    assert cell.note == ""
    assert "-O3" in cell.cause
    assert "-O1" in cell.cause
    assert "-O1" in text
    assert "the shelf &lt;keeper&gt;" in text
    assert NightReport.model_validate_json((page / "night.json").read_text()) == red
    suite = ET.fromstring((page / "junit.xml").read_text(encoding="utf-8"))  # noqa: S314  edgetune wrote it
    assert suite.attrib["failures"] == "1"

    command = [sys.executable, "-m", "edgetune", "nightly", "accept", f"m@{BOARD}", "--because", "the flag is meant"]
    subprocess.run(command, cwd=farm, check=True, capture_output=True, timeout=SECONDS)
    told = {"by": getpass.getuser(), "because": "the flag is meant", "night": red.night}
    (accepted,) = nightly(farm, "status")["cells"]
    assert {key: accepted["acceptance"][key] for key in told} == told
    written = (page / "index.html").read_text(encoding="utf-8")
    at = clock_time(accepted["acceptance"]["utc"], None)
    assert f'accepted by {told["by"]} at <span class="date">{at}</span>: the flag is meant.' in written
    assert NightReport.model_validate_json((page / "night.json").read_text()).cells[0].acceptance is not None
    green = nightly(farm, "run", "--now")
    assert green["cells"][0]["verdict"] == "same"
    assert green["cells"][0]["compared_with"] == accepted["acceptance"]
    later = (page.with_name(green["night"]) / "index.html").read_text(encoding="utf-8")
    assert re.search(rf"<td>{told['by']}</td><td>[^<]+</td><td class=\"reason\">the flag is meant</td>", later)
    command = [sys.executable, "-m", "edgetune", "nightly", "log", f"m@{BOARD}", "--night", first["night"], "--json"]
    lines = subprocess.run(command, cwd=farm, check=True, capture_output=True, text=True, timeout=SECONDS).stdout
    assert "round" in [json.loads(line)["event"] for line in lines.splitlines()]


@pytest.mark.long
def test_a_model_that_grew_and_worse_records_are_named_as_the_cause(second: Path) -> None:
    farm = second
    model = (farm / "m.onnx").read_bytes()
    grown = onnx.load_model_from_string(model)
    grown.graph.node[0].output[0] = "h"
    grown.graph.node.append(helper.make_node("MatMul", ["h", "w"], ["y"]))
    onnx.save(grown, farm / "m.onnx")
    (cell,) = nightly(farm, "run", "--now", code=29)["cells"]
    assert (cell["verdict"], cell["factors"]) == ("slower", ["model"])

    (farm / "m.onnx").write_bytes(model)
    with sqlite3.connect(farm / "out" / "records.db") as connection:
        columns = "median_ns, ci_low_ns, ci_high_ns, samples_ns"
        found = f"SELECT id, {columns} FROM records WHERE status = 'ok' ORDER BY median_ns"  # noqa: S608  no input
        rows = connection.execute(found).fetchall()
        for row, other in ((rows[0], rows[-1]), (rows[-1], rows[0])):
            changed = f"UPDATE records SET ({columns}) = (?, ?, ?, ?) WHERE id = ?"  # noqa: S608  no input
            connection.execute(changed, (*other[1:], row[0]))
    (cell,) = nightly(farm, "run", "--now", code=29)["cells"]
    assert cell["factors"] == ["search"]
    assert "other schedules for matmul" in cell["cause"]
    assert "@@" in cell["diff"]


@pytest.mark.long
def test_a_cell_that_is_cancelled_ends_and_a_rerun_measures_it_in_the_same_night(farm: Path) -> None:
    change_budget(farm, ENDLESS)
    process = start(farm)
    wait_for(lambda: candidates(farm) >= 1)
    cell = f"m@{BOARD}"
    subprocess.run([sys.executable, "-m", "edgetune", "nightly", "cancel", cell], cwd=farm, check=True, timeout=SECONDS)
    begun = time.monotonic()
    assert process.wait(SECONDS) == 0
    assert time.monotonic() - begun < 10.0
    night = nightly(farm, "status")
    assert night["cells"][0]["verdict"] == "not measured"
    assert night["cells"][0]["reason"].startswith("cancelled by ")
    change_budget(farm, TRIALS)
    subprocess.run([sys.executable, "-m", "edgetune", "nightly", "rerun", cell], cwd=farm, check=True, timeout=SECONDS)
    found = nightly(farm, "run", "--now")
    assert (found["night"], found["cells"][0]["verdict"]) == (night["night"], "first")


@pytest.mark.long
def test_by_day_nothing_starts_and_a_farm_without_nights_is_overdue(farm: Path) -> None:
    assert "--now" in nightly(farm, "run", code=2)["error"]["message"]
    assert "no night has run yet" in nightly(farm, "status", code=28)["error"]["message"]


@pytest.mark.long
def test_a_failing_cell_is_on_the_page_with_its_reason(farm: Path) -> None:
    (farm / "m.onnx").write_bytes(b"no model")
    with (farm / "farm.yaml").open("a") as file:
        file.write("notify: [sh, -c, 'cat > heard; echo no route; exit 1']\n")
    found = nightly(farm, "run", "--now", code=28)
    assert "no route" in found["notify_fault"]
    assert "m.onnx" in (farm / "heard").read_text()
    assert [cell["verdict"] for cell in found["cells"]] == ["not measured"]
    assert "m.onnx" in found["cells"][0]["reason"]
    assert found["cells"][0]["reason"] in (farm / "out" / "pages" / found["night"] / "index.html").read_text()
