"""Kills the runner of a bundle at random moments: python -m tests.bundle.soak [KILLS]; the stub driver stands in.

Moments are drawn from the time that an unharmed run takes on this machine just then, so that runs end before, amid and
after the candidates. After each kill the results are imported. The exit status is 1 where a line is refused, lost, or
counted twice, and where no bundle came back whole or none in part: then nothing was tried.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edgetune.bundle.import_results import import_bundle
from edgetune.bundle.manifest import RESULTS, read_manifest
from edgetune.records import RecordStore
from tests.bundle.bundle_sample import compiled, environment, export


def main() -> int:
    """Run the command."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    moments = random.Random(1)  # noqa: S311  moments, no secrets
    refused = stored = rounds = killed = partly = 0
    with tempfile.TemporaryDirectory() as place:
        folder, bundle = Path(place), Path(place) / "bundle"
        export(bundle)
        runner, stub = compiled(folder)
        number = len(read_manifest(bundle)[0].candidates)
        begin = time.monotonic()
        subprocess.run([str(runner), str(bundle)], env=environment(stub), check=True)
        unharmed = time.monotonic() - begin
        (bundle / RESULTS).unlink()
        store = RecordStore.open(folder / "records.db")
        while killed < kills:
            with subprocess.Popen([str(runner), str(bundle)], env=environment(stub)) as process:
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
    sys.stdout.write(f"{killed} kills, {rounds} whole bundles, {partly} partial imports, {refused} faults\n")
    return int(refused > 0 or not rounds or not partly)


if __name__ == "__main__":
    sys.exit(main())
