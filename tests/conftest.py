"""Rules for the whole suite: a skipped test is a failed run, golden files are updated only when asked.

Tests that need CUDA's compiler carry the mark `nvcc`. Where it is not installed they are skipped by name, and the run
does not fail for that, unless --no-skips says that nothing may be missing, as in CI.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from os import sched_getaffinity, sched_setaffinity  # tests patch those of the module
from pathlib import Path

import pytest
from hypothesis import settings

from edgetune.boards import statistics
from edgetune.config.database_location import DatabaseLocation
from edgetune.target.cuda_toolkit import WHEELS, find_nvcc
from tests.postgresql_server import Place, PostgresqlServer

GOLDEN = Path(__file__).parent / "golden"
NO_NVCC = f"there is no nvcc: {WHEELS} installs it"

# The machine that runs the suite may be busy: no deadline per example, and the same examples every time.
settings.register_profile("edgetune", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("edgetune")

# A shell that starts the suite in its background has it ignore Ctrl-C, as would all processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--no-skips", action="store_true", help="a test skipped for want of nvcc fails the run as well")


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Tell whether golden files are to be written."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def golden(update_golden: bool) -> Callable[[str, str], None]:
    """Return ``check(name, text)``, which compares ``text`` with ``tests/golden/<name>``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if update_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: run pytest with --update-golden and look at what it wrote"
        assert text == path.read_text(encoding="utf-8"), f"{path} differs: --update-golden if that is meant"

    return check


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the settings of the account that runs the suite out of it."""
    for name in list(os.environ):
        if name.startswith("EDGETUNE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-user-config"))


@pytest.fixture(autouse=True)
def _same_cores() -> Iterator[None]:
    """Fail a test that leaves this process on other cores: later tests would find fewer."""
    before = sched_getaffinity(0)
    yield
    after = sched_getaffinity(0)
    sched_setaffinity(0, before)
    assert after == before, f"the test leaves this process on cores {sorted(after)} instead of {sorted(before)}"


@pytest.fixture
def no_sample_is_noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the noise of the machine out of a test whose own process judges samples; a search has another process."""
    monkeypatch.setattr(statistics, "NOISY_WIDTH", math.inf)


_SKIPPED = 9  # no code of pytest's own: tests that fail are run once more, which mends no skip


class _NoSkips:
    """Fails the run when a test was skipped or expected to fail: it could not show what it is for.

    `strict`: tests that were skipped for want of nvcc count as well.
    """

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.names: list[str] = []
        self.without_nvcc: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._count(report)

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:
            known = not self.strict and NO_NVCC in str(report.longrepr)
            (self.without_nvcc if known else self.names).append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.names and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            session.exitstatus = _SKIPPED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.without_nvcc:
            terminalreporter.write_sep("=", f"{len(self.without_nvcc)} skipped, because {NO_NVCC}", yellow=True)
            for name in self.without_nvcc:
                terminalreporter.write_line(name)
        if self.names:
            terminalreporter.write_sep("=", f"{len(self.names)} skipped, which counts as failed", red=True)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nvcc: needs CUDA's compiler, which the extra cuda installs")
    config.pluginmanager.register(_NoSkips(strict=config.getoption("--no-skips")), "no-skips")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("nvcc") is not None and find_nvcc() is None:
        pytest.skip(NO_NVCC)  # developers may lack it; with --no-skips, as in CI, a skipped test fails the run


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server for all tests of this process."""
    server = PostgresqlServer()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Names of databases become locations, of each engine in turn."""
    if request.param == "sqlite":
        return lambda name: tmp_path / name
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    made: dict[str, DatabaseLocation] = {}
    return lambda name: made.get(name) or made.setdefault(name, server.new_database())
