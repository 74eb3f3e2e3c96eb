"""pytest plugin: workers note the wall and CPU seconds of each test, with those of the children they waited for.

Loaded by `python -m tests.durations.run`; `--durations-to FOLDER` names the folder of the notes, one file a worker.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.durations.processes import current

COLLECTED = "(collected)"
"""Stands for the name of a test where a file was collected."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-to", metavar="FOLDER", help="note the seconds of each test in files of this folder")


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _note(config: pytest.Config, nodeid: str, wall: float, cpu: float, *, long: bool = False) -> None:
    folder = config.getoption("--durations-to")
    if folder is None:
        return
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    with (Path(folder) / f"{worker}.jsonl").open("a", encoding="utf-8") as notes:
        notes.write(json.dumps({"test": nodeid, "wall": wall, "cpu": cpu, "long": long}) + "\n")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if (folder := item.config.getoption("--durations-to")) is not None:
        Path(folder, current(os.getpid())).write_text(item.nodeid.partition("::")[0], encoding="utf-8")
    began, used = time.monotonic(), _cpu()
    result = yield
    long = item.get_closest_marker("long") is not None
    _note(item.config, item.nodeid, time.monotonic() - began, _cpu() - used, long=long)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    began, used = time.monotonic(), _cpu()
    result = yield
    if isinstance(collector, pytest.Module):
        _note(collector.config, f"{collector.nodeid}::{COLLECTED}", time.monotonic() - began, _cpu() - used)
    return result
