"""The same model and records give the same bytes, wherever and under whatever settings of the shell."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tests.acceptance.case import Case, edgetune
from tests.foreign_locale import turkish

SHELLS = (
    {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC"},
    {"PYTHONHASHSEED": "4242", "TZ": "Asia/Kathmandu", "COLUMNS": "40"},  # and under another locale
)


def determinism(case: Case) -> str:
    """Two more emissions, from two other folders and shells, have the bytes of the first."""
    first = contents(case.package)
    for number, shell in enumerate(SHELLS):
        folder = case.scratch / f"emission {number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        model = Path(shutil.copy(case.model, folder))
        named = model.name if number else model
        words = ("build", named, "--board", case.board, "--db", case.db, "-o", "elsewhere", "--json")
        # As in a shell of that language: Python takes on its letters, not its numbers, compilers take on all.
        language = turkish(case.scratch / "locale") if number else {}
        done = edgetune(*words, cwd=folder, environment=shell | language)
        assert done.returncode == 0, done.stderr.strip()[-1000:]
        again = contents(folder / "elsewhere")
        differing = sorted(name for name in first.keys() | again.keys() if first.get(name) != again.get(name))
        assert not differing, f"emission {number + 2} differs in {', '.join(differing)}"
    return f"{len(first)} files, {len(SHELLS) + 1} emissions"


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 of every file by its path in the folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
