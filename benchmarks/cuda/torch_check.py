"""Checks PyTorch's side on this CPU: python -m benchmarks.cuda.torch_check [--python PYTHON] MODEL...

Each model is run by torch_side.py in float32, as on a GPU but in eager mode alone, and its outputs are compared with
ONNX Runtime's. Prints a table; the exit status is 1 where one is off by more than 1e-4 of the largest element.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.cuda.prepare import graph_and_goldens

TORCH_SIDE = Path(__file__).with_name("torch_side.py")
WAY = "PyTorch eager"
TOLERANCE = 1e-4
_SECONDS = 300


def answer(model: Path, python: str, folder: Path) -> dict[str, Any]:
    """What PyTorch says of a model: its "error" and "median_us", or in "absent" why there is none."""
    facts = graph_and_goldens(model, folder)
    (folder / "facts.json").write_text(json.dumps({"precision": "fp32", **facts}))
    command = [python, str(TORCH_SIDE), str(folder), "cpu"]
    done = subprocess.run(
        command, input=f"{WAY}\n", capture_output=True, text=True, check=False, timeout=_SECONDS, cwd=folder
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if not lines:
        return {"absent": done.stderr.strip()[-300:]}
    if WAY not in lines[0]["ways"]:
        return {"absent": str(lines[0]["absent"])}
    return dict(lines[1]) if len(lines) > 1 else {"absent": done.stderr.strip()[-300:]}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    given = parser.parse_args()
    wrong = 0
    sys.stdout.write("| model | largest error | |\n|---|---:|---|\n")
    for model in given.models:
        with tempfile.TemporaryDirectory() as place:
            found = answer(model, given.python, Path(place))
        right = found.get("error", 1.0) <= TOLERANCE
        wrong += not right
        said = "right" if right else f"**wrong** {found.get('absent', '')}"
        sys.stdout.write(f"| {model.stem} | {found.get('error', float('nan')):.1e} | {said} |\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
