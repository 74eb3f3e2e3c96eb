"""Holds the packages of whole models against what they must show, and prints a table (`make acceptance`).

Usage: python tests/acceptance/run.py [--models NAME_OR_FILE ...] [--checks NAME ...] [--tune 5m] [--least-pace 60]
                                      [--out DIR]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.acceptance.case import EXAMPLES, Case, build_case  # noqa: E402
from tests.acceptance.checks_compile import no_warning, sanitizers, undefined_symbols  # noqa: E402
from tests.acceptance.checks_cross import cross  # noqa: E402
from tests.acceptance.checks_determinism import determinism  # noqa: E402
from tests.acceptance.checks_loops import loops  # noqa: E402
from tests.acceptance.checks_memory import arena, code, stack  # noqa: E402
from tests.acceptance.checks_pace import pace  # noqa: E402
from tests.acceptance.checks_programs import header_as_cpp, two_in_one, wrong_use  # noqa: E402
from tests.acceptance.checks_results import agreement  # noqa: E402

GENERATED = ROOT / "build" / "models"
SMALL = ("ds_cnn", "vww", "resnet8", "ad_ae")
LARGE = ("mobilenet_v2", "squeezenet", "shufflenet", "resnet50", "densenet121")
PARTNER = "ad_ae"


def two(case: Case) -> str:
    """The package beside that of the autoencoder in one program."""
    partner = build_case(EXAMPLES / f"{PARTNER}.onnx", case.board, case.scratch / "partner")
    return two_in_one(case, partner) if case.model.stem != PARTNER else "itself"


CHECKS: dict[str, Callable[[Case], str]] = {
    "results": agreement,
    "warnings": no_warning,
    "symbols": undefined_symbols,
    "arena": arena,
    "stack": stack,
    "code": code,
    "loops": loops,
    "header": header_as_cpp,
    "determinism": determinism,
    "pace": pace,
    "sanitizers": sanitizers,
    "two": two,
    "wrong_use": wrong_use,
    "cross": cross,
}
ONLY_SMALL = {"two", "wrong_use"}
ONLY_ASKED = {"loops"}
"""On the host the clock has chosen, and a tile that spills may be the fastest; `cross` has this check in any case."""


def main() -> int:
    """Runs the checks and returns the number of failures."""
    options = _arguments()
    checks = CHECKS | {"pace": partial(pace, least=options.least_pace)}
    failures = 0
    for name in options.models:
        model = find_model(name)
        started = time.monotonic()
        search = ["--time", options.tune] if options.tune else []
        try:
            case = build_case(model, "host", options.out / model.stem, db=options.db, search=search)
        except AssertionError as error:
            failures += 1
            _tell(model.stem, "build", f"FAIL {error}", started)
            continue
        _tell(model.stem, "build", "ok", started)
        for check in options.checks:
            if check not in ONLY_SMALL or model.stem in SMALL:
                failures += _judge(case, check, checks[check])
    sys.stdout.write(f"{failures} failures\n")
    return min(failures, 100)


def find_model(name: str) -> Path:
    """The file of a model: a path, one of the repository's, or one that examples/make_models.py wrote."""
    for path in (Path(name), EXAMPLES / f"{name}.onnx", GENERATED / f"{name}.onnx"):
        if path.suffix == ".onnx" and path.is_file():
            return path.resolve()
    sys.exit(f"there is no model {name}: python examples/make_models.py {GENERATED} {name}")


def _judge(case: Case, name: str, check: Callable[[Case], str]) -> int:
    started = time.monotonic()
    try:
        note = check(case)
    except AssertionError as error:
        _tell(case.model.stem, name, f"FAIL {' '.join(str(error).split())[:600]}", started)
        return 1
    _tell(case.model.stem, name, f"ok   {note}", started)
    return 0


def _tell(model: str, check: str, text: str, started: float) -> None:
    sys.stdout.write(f"{model:18} {check:12} {time.monotonic() - started:6.0f} s  {text}\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", default=[*SMALL, *LARGE, *(f"{name}_int8" for name in SMALL)])
    parser.add_argument(
        "--checks", nargs="+", choices=list(CHECKS), default=[name for name in CHECKS if name not in ONLY_ASKED]
    )
    parser.add_argument("--tune", help="search for that long first, such as 5m")
    parser.add_argument("--least-pace", type=float, help="candidates a minute that a search must reach, such as 60")
    parser.add_argument("--db", type=Path, help="records; a database for each model by default")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "acceptance")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.db = options.db.resolve() if options.db else None
    return options


if __name__ == "__main__":
    sys.exit(main())
