"""Public bug reports: runs the scripts of a folder, each a small model after a report, and prints a table.

Each script builds its model with the command line and prints one line: `ok ...`, or `FALLS SHORT: ...`. Some compare
times, so all run on one core, one after the other; a busy core is named in the table. The README of the folder has a
table of issues and their cases.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("../shared/reports")
_MOST_S = 3600
_BUSY = 0.1  # share of the time that other work takes of the core


@dataclass(frozen=True)
class Report:
    """What a script said; `others` is the share of its time that other work took of its core."""

    case: str
    issue: str
    said: str
    ok: bool
    seconds: float
    others: float


def issues(folder: Path) -> Mapping[str, str]:
    """The issue of each case, from the table in the README of `folder`; without one, a case has none."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
    named = ((re.sub(r" \(.*", "", case.strip()), issue.strip()) for issue, cases in rows for case in cases.split(","))
    return dict(named)


def idle_core() -> int:
    """The core that was idle longest, of those that this process may use."""
    before = _idle()
    time.sleep(1.0)
    after = _idle()
    return max(os.sched_getaffinity(0), key=lambda core: after[core][0] - before[core][0])


def _idle() -> dict[int, tuple[int, int]]:
    """Ticks in which each core was idle, and all its ticks."""
    rows = (line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines())
    cores = {int(row[0][3:]): list(map(int, row[1:9])) for row in rows if re.fullmatch(r"cpu\d+", row[0])}
    return {core: (ticks[3] + ticks[4], sum(ticks)) for core, ticks in cores.items()}


def run(script: Path, edgetune: Path, core: int, issue: str) -> Report:
    """Runs one script on `core`."""
    before, used = _idle()[core], os.times()
    begin = time.monotonic()
    words = [sys.executable, str(script.resolve()), str(edgetune)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_MOST_S, check=False, preexec_fn=lambda: _pin(core)
        )
        lines = (done.stderr + done.stdout).strip().splitlines() or ["nothing"]  # libraries warn on stderr
        said, ok = lines[-1], done.returncode == 0 and lines[-1].startswith("ok")
    except subprocess.TimeoutExpired:
        said, ok = f"no end after {_MOST_S} s", False
    seconds, after, spent = time.monotonic() - begin, _idle()[core], os.times()
    own = spent.children_user + spent.children_system - used.children_user - used.children_system
    busy = (after[1] - before[1] - (after[0] - before[0])) / os.sysconf("SC_CLK_TCK")
    return Report(script.stem.removeprefix("case_"), issue, said, ok, seconds, max(0.0, busy - own) / seconds)


def _pin(core: int) -> None:
    os.sched_setaffinity(0, {core})


def table(reports: list[Report]) -> str:
    """A Markdown table of `reports`, those of one issue together."""
    lines = ["| issue | case | result | s | other work on the core |", "|---|---|---|---|---|"]
    for one in sorted(reports, key=lambda report: (report.issue, report.case)):
        busy = f"**{one.others:.0%}**" if one.others > _BUSY else f"{one.others:.0%}"
        lines.append(f"| {one.issue or 'none'} | {one.case} | {one.said} | {one.seconds:.0f} | {busy} |")
    right = sum(report.ok for report in reports)
    return "\n".join([*lines, "", f"{right} of {len(reports)} are ok."])


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns 1 where a case falls short."""
    parser = argparse.ArgumentParser(prog="python -m tests.reports", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("cases", nargs="*", help="names without `case_`; all by default")
    given = parser.parse_args(arguments)
    scripts = sorted(given.folder.glob("case_*.py"))
    known = {script.stem.removeprefix("case_"): script for script in scripts}
    unknown = set(given.cases) - set(known)
    if unknown or not known:
        parser.error(f"{given.folder} has no case {', '.join(sorted(unknown)) or 'at all'}")
    edgetune = Path(sys.executable).with_name("edgetune")
    by_case, core, reports = issues(given.folder), idle_core(), []
    for case in given.cases or known:
        reports.append(run(known[case], edgetune, core, by_case.get(case, "")))
        print(f"{case}: {reports[-1].said}", flush=True)
    print(f"\n{table(reports)}")
    return int(not all(report.ok for report in reports))


if __name__ == "__main__":
    sys.exit(main())
