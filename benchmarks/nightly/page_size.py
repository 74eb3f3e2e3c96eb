"""How large the page of a night is and how long it takes.

python -m benchmarks.nightly.page_size [NIGHT ...] [--out FOLDER] [--check]

Pages are written from rows of a records database that `sample_nights` fills: 20 models on 10 boards after 365 nights, 6
on 4, a first night, a quiet one, a red one, one without boards and one without cells. With --check the exit status is 1
where a page has 5 MB or more, or takes 20 seconds of one core or more. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.nightly.sample_nights import NIGHTS, sample
from edgetune.farm.page.files import write_report
from edgetune.farm.report import report

MOST_BYTES, MOST_SECONDS = 5_000_000, 20.0


def main() -> int:
    """Write each page and print its bytes and seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(NIGHTS), metavar="NIGHT", help=f"of {', '.join(NIGHTS)}")
    parser.add_argument("--out", type=Path, help="where to keep the pages")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        out = arguments.out or Path(scratch) / "pages"
        for name in arguments.names:
            with sample(name, Path(scratch) / f"{name}.db") as (farm, store):
                begun = time.process_time()
                page = write_report(report(farm, store, store.nights(farm.name)[-1]), out / name)
                found[name] = {"bytes": page.stat().st_size, "seconds": round(time.process_time() - begun, 2)}
            print(f"{name:15} {found[name]['bytes']:9,} bytes {found[name]['seconds']:6.2f} s", flush=True)
    print(json.dumps(found))
    missed = any(page["bytes"] >= MOST_BYTES or page["seconds"] >= MOST_SECONDS for page in found.values())
    return int(arguments.check and missed)


if __name__ == "__main__":
    sys.exit(main())
