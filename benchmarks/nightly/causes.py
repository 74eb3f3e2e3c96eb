"""Nights whose cause is known: python -m benchmarks.nightly.causes [--results FILE] [--only WORD] [--check].

A first night of counting boards is copied; in each copy something is changed, and a second night tells what it found.
A board that counts instructions cannot become slower: there, the recorded past is made faster instead. Each night is
a line of JSON in FILE; what stands there is not repeated. With --check the exit status is 1 where fewer than 22 of 23
nights name the right cause.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from tests.farm.hosts import BOARDS, TestFarm

TRIALS, MOST_WRONG = 4, 1
_TREE = Path(__file__).resolve().parents[2]
_COLUMNS = "median_ns, ci_low_ns, ci_high_ns, samples_ns"

Seed = Callable[[TestFarm], None]


@dataclass(frozen=True)
class SeededNight:
    """What is changed before a night, and the factors that its cause must name ("board" stands for the note).

    `file` is the farm file that the night is run with.
    """

    name: str
    seed: Seed
    truth: tuple[str, ...]
    boards: int = 1
    file: str = "farm.yaml"


@dataclass(frozen=True)
class Outcome:
    """What a night found: the verdicts by cell, the factors that it named, and whether that is right."""

    name: str
    truth: list[str]
    named: list[str]
    verdicts: list[str]
    right: bool
    sentence: str


def flag(level: str) -> Seed:
    """Other flags in the target files."""

    def seed(farm: TestFarm) -> None:
        _edit_targets(farm, "[-O3,", f"[{level},")

    return seed


def compiler(level: str) -> Seed:
    """Another compiler: a program of another name that optimises less, whatever its flags are."""

    def seed(farm: TestFarm) -> None:
        program = farm.folder / "bin" / "other-gcc"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec aarch64-linux-gnu-gcc "$@" {level}\n')
        program.chmod(0o755)
        _edit_targets(farm, "cc: aarch64-linux-gnu-gcc", f"cc: {program}")

    return seed


def generator(level: str) -> Seed:
    """Another edgetune: a copy whose code generator has kernels optimised less, with a higher version of it."""

    def seed(farm: TestFarm) -> None:
        tree = farm.folder / "edgetune-other"
        for part in ("edgetune", "templates", "targets", "deploy"):
            shutil.copytree(_TREE / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        codegen = tree / "edgetune" / "codegen"
        _replace(
            codegen / "emit.py", 'f"void {symbol}("', f"f'__attribute__((optimize(\"{level}\"))) void {{symbol}}('"
        )
        _replace(codegen / "__init__.py", "\nCODEGEN_VERSION = ", "\nCODEGEN_VERSION = 1000 + ")
        farm.python_path = str(tree)

    return seed


def record(place: int) -> Seed:
    """A record that is better on paper: of each workload, a slow candidate gets the times of the fastest one."""

    def seed(farm: TestFarm) -> None:
        with sqlite3.connect(farm.folder / "out" / "records.db") as connection:
            workloads = connection.execute("SELECT DISTINCT workload, target FROM records").fetchall()
            for key in workloads:
                found = f"SELECT id, {_COLUMNS} FROM records WHERE workload = ? AND target = ? AND status = 'ok' "  # noqa: S608
                rows = connection.execute(found + "ORDER BY median_ns", key).fetchall()
                for row, other in ((rows[0], rows[place]), (rows[place], rows[0])):
                    changed = f"UPDATE records SET ({_COLUMNS}) = (?, ?, ?, ?) WHERE id = ?"  # noqa: S608
                    connection.execute(changed, (*other[1:], row[0]))

    return seed


def model(more: int) -> Seed:
    """A model with further layers."""

    def seed(farm: TestFarm) -> None:
        path = farm.folder / "m0.onnx"
        grown = onnx.load(path)
        for number in range(more):
            grown.graph.node[-1].output[0] = f"h{number}"
            grown.graph.node.append(helper.make_node("MatMul", [f"h{number}", "w"], ["y"]))
        onnx.save(grown, path)

    return seed


def renamed_model(farm: TestFarm) -> None:
    """The same model in a file of another name."""
    shutil.move(farm.folder / "m0.onnx", farm.folder / "another.onnx")
    _replace(farm.folder / "farm.yaml", "m0.onnx", "another.onnx")


def renamed_farm(name: str) -> Seed:
    """The same farm in a file of another name."""

    def seed(farm: TestFarm) -> None:
        shutil.move(farm.folder / "farm.yaml", farm.folder / name)

    return seed


def without_records(farm: TestFarm) -> None:
    """No records, and a budget that finds the first candidate alone."""
    with sqlite3.connect(farm.folder / "out" / "records.db") as connection:
        connection.execute("DELETE FROM records")
    _replace(farm.folder / "farm.yaml", f"trials: {TRIALS}", "trials: 1")


def past(boards: Sequence[str]) -> Seed:
    """The accepted program and the canary took 5 % less in the past of these boards."""

    def seed(farm: TestFarm) -> None:
        with sqlite3.connect(farm.folder / "out" / "records.db") as connection:
            found = "SELECT v.id, v.facts, c.board FROM verdicts v JOIN night_cells c ON c.id = v.night_cell_id"
            for number, text, board in connection.execute(found).fetchall():
                facts = json.loads(text)
                if board in boards:
                    facts |= {"new": 0.95 * facts["new"]}
                    facts["board"] |= {"emulator": "an older one"}
                    facts["health"]["costs"]["canary"] *= 0.95
                connection.execute("UPDATE verdicts SET facts = ? WHERE id = ?", (json.dumps(facts), number))

    return seed


def both(*seeds: Seed) -> Seed:
    """All of these."""

    def seed(farm: TestFarm) -> None:
        for one in seeds:
            one(farm)

    return seed


NIGHTS = (
    *(SeededNight(f"flag {level}", flag(level), ("toolchain",)) for level in ("-O1", "-O0", "-Og")),
    *(SeededNight(f"other compiler {level}", compiler(level), ("toolchain",)) for level in ("-O1", "-O0", "-Og")),
    *(SeededNight(f"generator {level}", generator(level), ("generator",)) for level in ("O1", "O0", "Og")),
    *(SeededNight(f"worse record {-place}", record(place), ("search",)) for place in (-1, -2)),
    *(SeededNight(f"model +{more}", model(more), ("model",)) for more in (1, 2, 3)),
    SeededNight("canary slower", past(BOARDS[:1]), ("board",)),
    SeededNight("one twin slower", past(BOARDS[:1]), ("board",), boards=2),
    SeededNight("flag and model", both(flag("-O0"), model(1)), ("toolchain", "model")),
    SeededNight("model and worse record", both(model(1), record(-1)), ("model", "search")),
    SeededNight("model renamed, other compiler -O0", both(renamed_model, compiler("-O0")), ("toolchain",)),
    SeededNight("records deleted", without_records, ("search",)),
    SeededNight(
        "farm file renamed, flag -O0", both(flag("-O0"), renamed_farm("b.yaml")), ("toolchain",), file="b.yaml"
    ),
    SeededNight("nothing", both(), ()),
    SeededNight("nothing, other owner", lambda farm: _append(farm, "owner: somebody"), ()),
)


def _append(farm: TestFarm, line: str) -> None:
    path = farm.folder / "farm.yaml"
    path.write_text(f"{path.read_text()}{line}\n")


def _edit_targets(farm: TestFarm, text: str, other: str) -> None:
    for path in (farm.folder / "config" / "edgetune" / "targets").glob("*.yaml"):
        _replace(path, text, other)


def _replace(path: Path, text: str, other: str) -> None:
    content = path.read_text(encoding="utf-8")
    if text not in content:
        raise ValueError(f"{path} has no {text!r}")
    path.write_text(content.replace(text, other), encoding="utf-8")


def first_night(folder: Path, boards: int) -> None:
    """Run the night with which all others are compared, on that many boards."""
    folder.mkdir()
    farm = TestFarm.make(folder, "local", Path("out/records.db"), trials=TRIALS)
    _replace(folder / "farm.yaml", ", ".join(BOARDS), ", ".join(BOARDS[:boards]))
    found = farm.call("h1", "run", "--now")
    if {cell["verdict"] for cell in found["cells"]} != {"first"}:
        raise RuntimeError(f"the first night found {found['counts']}")


def outcome_of(night: SeededNight, base: Path, folder: Path) -> Outcome:
    """Run a seeded night in a copy of `base`."""
    shutil.copytree(base, folder)
    farm = TestFarm(folder, "local")
    night.seed(farm)
    command = [sys.executable, "-m", "edgetune", "nightly", "run", "--now", "--json", night.file]
    done = subprocess.run(command, cwd=folder, env=farm.environment("h1"), capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(f"{night.name}: {done.stderr[-2000:]}")
    cells: list[dict[str, Any]] = json.loads(done.stdout)["cells"]
    noted = [cell["board"] for cell in cells if cell["note"].startswith("board: ")]
    named = {factor for cell in cells for factor in cell["factors"]} | ({"board"} if noted else set())
    slower = [cell["verdict"] == "slower" for cell in cells]
    alarm = all(slower) if set(night.truth) - {"board"} else not any(slower)
    right = alarm and named == set(night.truth) and (night.name != "one twin slower" or noted == [BOARDS[0]])
    sentences = [cell["cause"] or cell["note"] or cell["reason"] for cell in cells]
    return Outcome(
        night.name, sorted(night.truth), sorted(named), [cell["verdict"] for cell in cells], right, sentences[0]
    )


def outcomes(nights: Sequence[SeededNight], results: Path) -> Iterator[Outcome]:
    """The outcomes of all nights, those in `results` without running them again."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    known = {item["name"]: Outcome(**item) for item in map(json.loads, lines)}
    with tempfile.TemporaryDirectory(prefix="edgetune-causes-") as name:
        for number, night in enumerate(nights):
            if night.name not in known:
                base = Path(name) / f"base-{night.boards}"
                if not base.exists():
                    first_night(base, night.boards)
                folder = Path(name) / str(number)
                found = outcome_of(night, base, folder)
                shutil.rmtree(folder)
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(found)) + "\n")
                known[night.name] = found
            yield known[night.name]


def main() -> None:
    """Print a table, a row per night."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("nightly-causes.jsonl"))
    parser.add_argument("--only", default="")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    chosen = [night for night in NIGHTS if arguments.only in night.name]
    print("| changed | verdicts | named | right |\n|---|---|---|---|", flush=True)
    right = 0
    for found in outcomes(chosen, arguments.results):
        right += found.right
        named, verdicts = (", ".join(words) or "-" for words in (found.named, dict.fromkeys(found.verdicts)))
        print(f"| {found.name} | {verdicts} | {named} | {'yes' if found.right else 'NO'} |", flush=True)
    print(f"\n{right} of {len(chosen)} right")
    if arguments.check and right < len(chosen) - MOST_WRONG:
        sys.exit(1)


if __name__ == "__main__":
    main()
