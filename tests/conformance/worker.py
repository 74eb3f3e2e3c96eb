"""A process that judges tests named on standard input and answers with JSON lines on a descriptor.

Its arguments are the descriptor and the module whose `judge` it calls.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path


def main() -> None:
    answers = os.fdopen(int(sys.argv[1]), "w")
    judge = importlib.import_module(sys.argv[2]).judge

    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            name = line.strip()
            started = time.monotonic()
            try:
                status, reason = judge(name, Path(folder))
            except Exception as error:  # noqa: BLE001 - one test must not end the run; the report shows it
                status, reason = "crashed", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                traceback.print_exc()
            seconds = round(time.monotonic() - started, 2)
            answers.write(json.dumps({"name": name, "status": status, "reason": reason, "seconds": seconds}) + "\n")
            answers.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
