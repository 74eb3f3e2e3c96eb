"""Kills the runners of bundles at random moments: python -m tests.bundle.soak [KILLS].

Half of the kills hit a bundle of cubins, for which the stub driver stands in, half one of libraries for this machine.
Moments are drawn from the time that an unharmed run takes on this machine just then, so that runs end before, amid and
after the candidates. After each kill the results are imported. The exit status is 1 where a line is refused, lost, or
counted twice, and where no bundle of a kind came back whole or none in part: then nothing was tried.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edgetune.bundle.import_results import import_bundle
from edgetune.bundle.manifest import RESULTS, read_manifest
from edgetune.records import RecordStore
from tests.bundle.bundle_sample import compiled, environment, export
from tests.bundle.library_sample import export_libraries

Ready = tuple[Path, Path, Mapping[str, str] | None]
"""A bundle, its runner, and the runner's environment."""


def main() -> int:
    """Run the command."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    made: dict[str, Callable[[Path], Ready]] = {"cubins": _cubins, "libraries": _libraries}
    return max([_soak(name, make, kills // len(made)) for name, make in made.items()])


def _cubins(folder: Path) -> Ready:
    export(folder / "bundle")
    runner, stub = compiled(folder)
    return folder / "bundle", runner, environment(stub)


def _libraries(folder: Path) -> Ready:
    export_libraries(folder, folder / "bundle", candidates=6)
    return folder / "bundle", folder / "bundle/runner", None


def _soak(kind: str, make: Callable[[Path], Ready], kills: int) -> int:
    moments = random.Random(1)  # noqa: S311  moments, no secrets
    refused = stored = rounds = killed = partly = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bundle, runner, facts = make(folder)
        number = len(read_manifest(bundle)[0].candidates)
        begin = time.monotonic()
        subprocess.run([str(runner), str(bundle)], env=facts, check=True)
        unharmed = time.monotonic() - begin
        (bundle / RESULTS).unlink()
        store = RecordStore.open(folder / "records.db")
        while killed < kills:
            with subprocess.Popen([str(runner), str(bundle)], env=facts) as process:
                time.sleep(moments.random() * unharmed)
                killed += process.poll() is None
                process.kill()
            counts = import_bundle(bundle, store) if (bundle / RESULTS).exists() else None
            if counts is not None:
                refused, stored = refused + counts.refused, stored + counts.imported
                partly += 0 < counts.missing < number
            if counts is not None and counts.missing == 0:
                lines = (bundle / RESULTS).read_text().splitlines()
                whole = len({line.split()[0] for line in lines}) == len(lines) == number
                refused += (not whole) + (stored != number) + (len(store.list()) != number)
                (bundle / RESULTS).unlink()
                store.close()
                (folder / "records.db").rename(folder / f"records-{rounds}.db")
                store = RecordStore.open(folder / "records.db")
                rounds, stored = rounds + 1, 0
        store.close()
    sys.stdout.write(f"{kind}: {killed} kills, {rounds} whole bundles, {partly} partial imports, {refused} faults\n")
    return int(refused > 0 or not rounds or not partly)


if __name__ == "__main__":
    sys.exit(main())
