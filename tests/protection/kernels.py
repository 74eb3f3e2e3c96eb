"""Which kernels of which models are other C in one tree than in another?

    python -m tests.protection.kernels --tree NAME=FOLDER --tree NAME=FOLDER [--board BOARD ...] MODEL ...

Each FOLDER is a clone with a `.venv` of its own. Both build each model for each board without records. Two kernels are
the same where their C is, without comments, blanks and the names of kernels. Functions that kernels share count as
kernels. The exit status is 1 where a kernel differs, or where one tree builds what the other does not.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.protection.faults import named_trees

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_MOST_S = 3600


def kernels_of(package: Path) -> Counter[tuple[str, str]]:
    """Operators and C of each kernel of `package`, and each function that kernels share."""
    manifest = json.loads((package / "MANIFEST.json").read_text(encoding="utf-8"))
    prefix = manifest["prefix"]
    operators = {kernel["symbol"]: " ".join(kernel["sources"]) for kernel in manifest["kernels"]}
    (file,) = (package / "src").glob("*_kernels.c*")
    return Counter(dict.fromkeys(_functions(file.read_text(encoding="utf-8"), prefix, operators), 1))


def _functions(text: str, prefix: str, operators: dict[str, str]) -> Iterator[tuple[str, str]]:
    code = _COMMENT.sub("", text)
    for match in re.finditer(r"^[^\s#}][^;{}]*?\b(\w+)\([^;{}]*\)\s*\{.*?^\}", code, re.MULTILINE | re.DOTALL):
        name = match[1]
        body = " ".join(match[0].replace(name, "kernel").replace(f"{prefix}__", "").split())
        yield operators.get(name, name.removeprefix(f"{prefix}__")), body


def built(tree: Path, model: Path, board: str, out: Path) -> str:
    """Build `model` with the edgetune of `tree`; what it complains about, "" where it builds."""
    words = [tree / ".venv/bin/python", "-m", "edgetune", "build", model.resolve(), "--board", board, "-o", out]
    done = subprocess.run(
        [*map(str, words), "--db", str(out) + ".db", "-q"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=_MOST_S,
        check=False,
    )
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["nothing"])[-1]


def main(arguments: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m tests.protection.kernels", description=__doc__)
    parser.add_argument("--tree", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--board", action="append", metavar="BOARD", help="host by default")
    parser.add_argument("models", type=Path, nargs="+")
    given = parser.parse_args(arguments)
    trees, changed = named_trees(given.tree), False
    if len(trees) != 2:
        parser.error("two different trees are compared: give --tree NAME=FOLDER twice")
    for model in given.models:
        for board in given.board or ["host"]:
            with tempfile.TemporaryDirectory() as folder:
                outs = {name: Path(folder) / name for name in trees}
                said = {name: built(tree, model, board, outs[name]) for name, tree in trees.items()}
                if any(said.values()):
                    changed = changed or not all(said.values())
                    print(f"{model.name} for {board}: not built: {said}", flush=True)
                    continue
                old, new = (kernels_of(out) for out in outs.values())
            gone, come = (sorted(Counter(name for name, _ in left).items()) for left in (old - new, new - old))
            changed = changed or bool(gone or come)
            print(f"{model.name} for {board}: {len(old)} functions, gone {dict(gone)}, new {dict(come)}", flush=True)
    return int(changed)


if __name__ == "__main__":
    sys.exit(main())
