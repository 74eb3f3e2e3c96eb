"""Fifty nights replayed from recorded starts: gate, verdicts, archive and report give exactly what is expected."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nightly.simulator import RECORDED
from edgetune.errors import ConfigError
from edgetune.farm import comparing, nights, run_cell
from edgetune.farm.bench import Bench
from edgetune.farm.causes.cause import NOT_FOUND, Cause
from edgetune.farm.cells import Cell, cells_of
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.health.board_health import BoardHealth
from edgetune.farm.night_store import Night, NightStore
from edgetune.farm.report import report
from edgetune.pipeline.boards import load_board
from edgetune.target.target import with_cpu
from edgetune.verify.starts import Start
from edgetune.verify.verify import OutputReport, VerifyReport
from tests.farm.test_cause import write

STARTS: list[float] = json.loads(RECORDED.read_text(encoding="utf-8"))["starts"]
SHARE = 0.12
"""Share of the second layer in the recorded cost."""


@dataclass(frozen=True)
class Tonight:
    """What a night finds: `cost` and `layer` (that of a layer of 12 %) are factors, sizes are in bytes.

    `text` makes another program of the same cost. `mode` is how much slower each third start is. `before` is done in
    the morning before. `expected` is the verdict, `nights` for how many in a row, `alarm` whether it is red.
    """

    expected: str
    nights: int = 1
    alarm: bool = False
    cost: float = 1.0
    layer: float = 1.0
    text: str = ""
    mode: float = 0.0
    arena: int = 1000
    flash: int = 5000
    error: float = 1e-6
    inputs: int = 1
    threads: int = 1
    fails: bool = False
    before: str = ""


STORY = (
    Tonight("first"),
    Tonight("same", 1),  # the very program
    *(Tonight("same", 2 + n, text=f"b{n}", cost=1 + 0.004 * (-1) ** n) for n in range(5)),
    Tonight("same", 7, cost=1.01),  # what creeps is compared with the first night, not with the last one
    Tonight("cannot tell", 1, cost=1.0195),
    Tonight("slower", 1, alarm=True, cost=1.03),
    Tonight("slower", 2, alarm=True, cost=1.03),
    Tonight("slower", 3, alarm=True, cost=1.03, text="c"),
    Tonight("same", 1, cost=1.03, text="c", before="accept"),
    Tonight("faster", 1, cost=1.0),  # and accepted of itself
    Tonight("same", 1, cost=1.0),
    Tonight("faster", 1, alarm=True, cost=0.95, arena=1001),  # not accepted, because the arena grew
    Tonight("faster", 2, alarm=True, cost=0.95, arena=1001),
    Tonight("same", 1),
    Tonight("slower", 1, alarm=True, layer=1.1),  # 1.2 % of the whole
    Tonight("same", 1),
    Tonight("first", 1, inputs=2, text="d"),
    Tonight("same", 1, inputs=2, text="d"),
    Tonight("first", 1, inputs=2, text="d", before="lose"),
    Tonight("same", 1, inputs=2, text="d"),
    Tonight("first", 1, inputs=2, text="d", before="damage"),
    Tonight("same", 1, inputs=2, text="d"),
    Tonight("not measured", 1, fails=True),
    Tonight("not measured", 2, fails=True),
    Tonight("same", 1, inputs=2, text="d"),
    Tonight("same", 2, inputs=2, text="d", cost=1.005),
    Tonight("cannot tell", 1, inputs=2, text="e", mode=0.3),
    Tonight("cannot tell", 2, inputs=2, text="e", mode=0.3),
    Tonight("same", 1, inputs=2, text="e"),
    Tonight("same", 2, inputs=2, text="e", alarm=True, error=1e-5),
    Tonight("same", 3, inputs=2, text="e", flash=5050),
    Tonight("same", 4, inputs=2, text="e", alarm=True, flash=5051),
    Tonight("same", 5, inputs=2, text="e", flash=5051, before="accept"),  # as fast, and its flash is accepted
    Tonight("first", 1, inputs=2, text="e", threads=2),  # other settings
    Tonight("slower", 1, alarm=True, inputs=2, text="e", threads=2, cost=1.1),
    Tonight("not measured", 1, threads=2, fails=True),
    Tonight("slower", 1, alarm=True, inputs=2, text="e", threads=2, cost=1.1),
    Tonight("same", 1, inputs=2, text="f"),  # as before, compared with what was accepted for these settings
    Tonight("faster", 1, inputs=2, cost=0.9),
    Tonight("faster", 2, inputs=2, cost=0.8),
    Tonight("same", 1, inputs=2, cost=0.8),
    *(Tonight("same", 2 + n, inputs=2, cost=0.8 * (1 + 0.003 * (-1) ** n)) for n in range(3)),
    Tonight("slower", 1, alarm=True, cost=1.1),  # the model of before, compared with what was accepted for it
    Tonight("same", 1, inputs=2, cost=0.8),
)


class Replay(Bench):
    """A bench whose starts are the recorded ones in their order, times what the program costs."""

    def build(self, folder: Path) -> None:
        (folder / "built").mkdir(exist_ok=True)
        (folder / "built" / "bench").write_text((folder / "package" / "src" / "m_kernels.c").read_text())

    def start(self, folder: Path) -> Start:
        text = (folder / "built" / "bench").read_text()
        cost, layer = map(float, re.findall(r"cost_([\d.]+)_([\d.]+)_", text)[0])
        whole = cost * next(self.place)  # type: ignore[call-overload]
        second = whole * SHARE * layer
        return Start(whole * (1 - SHARE) + second, (whole * (1 - SHARE), second))


@dataclass
class Recording:
    """Stands for the place: gives the recorded starts, from `first` on and around, each third one slower by `mode`."""

    first: int
    mode: float
    emulated: bool = False

    def __next__(self) -> float:
        self.first += 1
        return STARTS[self.first % len(STARTS)] * (1 + self.mode * (self.first % 3 == 0))


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    (tmp_path / "m.onnx").write_bytes(b"")
    return load(tmp_path, 1)


def load(folder: Path, threads: int) -> Farm:
    """The farm, whose model may use that many threads."""
    model = f"{{file: m.onnx, threads: {threads}}}"
    (folder / "farm.yaml").write_text(f"models: {{m: {model}}}\nboards: [qemu-aarch64]\nbudget: {{trials: 1}}\n")
    return load_farm(folder / "farm.yaml")


def package_of(tonight: Tonight) -> Callable[[Cell, Any], None]:
    """What stands for search and build in a night."""

    def package(cell: Cell, settings: Any) -> None:
        del cell
        if tonight.fails:
            raise ConfigError("the model cannot be read")
        write(settings.out.parent, code=f"cost_{tonight.cost:.6f}_{tonight.layer:.6f}_{tonight.text}")
        path = settings.out / "MANIFEST.json"
        facts = json.loads(path.read_text())
        facts["memory"] |= {"arena_bytes": tonight.arena, "code_bytes": tonight.flash}
        tensor = {"field": "x", "shape": [1], "dtype": "float32", "bytes": 4, "alignment": 4}
        facts["inputs"] = [{"name": f"x{n}", **tensor} for n in range(tonight.inputs)]
        facts["layers"].append({**facts["layers"][0], "label": "second"})
        path.write_text(json.dumps(facts))

    return package


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Callable[[Farm, Night, NightStore, Tonight], None]:
    """Runs the one cell of a night, as its process does."""
    monkeypatch.setattr(run_cell, "die_with_parent", lambda _: None)
    monkeypatch.setattr(comparing, "cause_of", lambda *_: Cause(NOT_FOUND, "", (), {}))

    def run(farm: Farm, night: Night, store: NightStore, tonight: Tonight) -> None:
        target = with_cpu(load_board("host").target)
        bench = Replay(Recording(first=7 * night.id, mode=tonight.mode), target)  # type: ignore[arg-type]
        output = OutputReport("y", "fresh", tonight.error, tonight.error, 0.0, 0.0, 1.0)
        verified = VerifyReport("p", "m", "b", "cc", None, "here", "onnx", 1, 1, (output,))
        (row,) = store.cells(night)
        attempt = store.start_attempt(row.id, "h")
        words = [
            "run_cell",
            "1",
            str(farm.save(farm.path.with_name("saved.json"))),
            night.night,
            str(row.id),
            str(attempt),
        ]
        run_cell.folder_of(farm, night.night, row.cell).mkdir(parents=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", words)
            patch.chdir(farm.path.parent)
            patch.setattr(run_cell, "_write_package", package_of(tonight))
            patch.setattr("edgetune.farm.run_cell.api.verify", lambda *_: verified)
            patch.setattr(run_cell, "_at", lambda _, use: use(bench))
            patch.setattr(run_cell, "health_of", lambda *_: BoardHealth(night.begun_utc))
            run_cell.main()
        store.end_attempt(row.id, attempt, "exit code 0")

    return run


def prepare(what: str, farm: Farm, store: NightStore) -> None:
    """What somebody does in the morning before a night."""
    if not what:
        return
    (last,) = store.nights(farm.name)[-1:]
    (row,) = store.cells(last)
    if what == "accept":
        nights.accept(farm, store, last, row, "the flag is meant")
        return
    found = store.accepted(farm.name, row.cell)
    assert found is not None
    (kept,) = farm.archive.rglob(f"{found.package}.tar")
    if what == "lose":
        kept.unlink()
    else:
        kept.write_bytes(kept.read_bytes()[:-1])


@pytest.mark.long
def test_fifty_nights_get_exactly_the_expected_verdicts(
    farm: Farm, replay: Callable[[Farm, Night, NightStore, Tonight], None]
) -> None:
    assert len(STORY) == 50
    folder = farm.path.parent
    found = []
    for number, tonight in enumerate(STORY):
        farm = load(folder, tonight.threads)
        with NightStore.open(farm.db, create=True) as store:
            prepare(tonight.before, farm, store)
            name = str(date(2026, 1, 1) + timedelta(days=number))
            facts = {"farm": farm.name, "night": name, "ends_utc": None, "host": "h", "tool_version": "1", "owner": ""}
            night = store.begin({**facts, "limit": 0.02}, cells_of(farm))
            assert night is not None
            replay(farm, night, store, tonight)
            assert store.finish(night)
            (cell,) = report(farm, store, night).cells
            found.append((cell.verdict, cell.nights, cell.alarm))
    assert found == [(tonight.expected, tonight.nights, tonight.alarm) for tonight in STORY]
