"""Rules for the whole suite: a skipped test is a failed run, golden files are updated only when asked.

Tests that need a tool which is not installed are left out by name, and the run does not fail for that, unless
--no-skips says that nothing may be missing, as in CI. Those that need CUDA's compiler carry the mark `nvcc`, those that
need PyTorch `torch`.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from os import sched_getaffinity, sched_setaffinity  # tests patch those of the module
from pathlib import Path

import pytest

from edgetune.boards import statistics
from edgetune.config.database_location import DatabaseLocation
from edgetune.target.cuda_toolkit import WHEELS, find_nvcc
from tests import compile_cache, examples
from tests.missing_tools import LEFT_OUT, TOOLS, MissingTools, lacking
from tests.postgresql_server import Place, PostgresqlServer
from tests.selection import Selection

GOLDEN = Path(__file__).parent / "golden"
NO_NVCC = f"{LEFT_OUT}nvcc ({WHEELS} installs it)"
NO_TORCH = f"{LEFT_OUT}torch (`TORCH=1 make test` installs it)"

examples.register_profiles()

# A shell that starts the suite in its background has it ignore Ctrl-C, as would all processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--no-skips", action="store_true", help="a test left out for want of a tool fails the run")
    parser.addoption("--no-compile-cache", action="store_true", help="use nothing that other processes compiled")
    share = "share: those of rooms that changed since --base, and a quarter of the others"
    parser.addoption("--long", choices=["all", "share"], default="all", help=f"which long tests run; {share}")
    parser.addoption("--base", metavar="COMMIT", default="HEAD~1", help="the commit that --long share compares with")


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


class _Skips:
    """Fails the run when a test was skipped or expected to fail: it could not show what it is for.

    What was left out for want of a tool counts only with `strict`; it is named with that tool.
    """

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.names: list[str] = []
        self.lacking: dict[str, list[str]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._count(report)

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            tool = lacking(reason)
            (self.lacking[tool] if tool else self.names).append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        counted = self.names or (self.strict and self.lacking)
        if counted and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            session.exitstatus = _SKIPPED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.lacking:
            number = sum(len(names) for names in self.lacking.values())
            verdict = ", which counts as failed" if self.strict else "; `make system` installs what Debian has"
            terminalreporter.write_sep("=", f"{number} tests left out for want of tools{verdict}", yellow=True)
            for tool in sorted(self.lacking, key=lambda one: -len(self.lacking[one])):
                terminalreporter.write_line(f"{len(self.lacking[tool])} need {tool}")
        if self.names:
            terminalreporter.write_sep("=", f"{len(self.names)} skipped, which counts as failed", red=True)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nvcc: needs CUDA's compiler, which the extra cuda installs")
    config.addinivalue_line("markers", "torch: needs PyTorch and its ONNX exporter, which the extra torch installs")
    config.addinivalue_line(
        "markers", "long: slow and end to end; `make test` runs a share of these (tests/selection.py)"
    )
    config.pluginmanager.register(_Skips(strict=config.getoption("--no-skips")), "skips")
    config.pluginmanager.register(MissingTools(TOOLS.read_text(encoding="utf-8")), "missing-tools")
    config.pluginmanager.register(Selection(config), "selection")
    if config.getoption("--no-compile-cache") or not compile_cache.can_be_written():
        compile_cache.bypass()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        compile_cache.prune()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("nvcc") is not None and find_nvcc() is None:
        pytest.skip(NO_NVCC)
    if item.get_closest_marker("torch") is not None and not all(map(find_spec, ("torch", "onnxscript", "torchao"))):
        pytest.skip(NO_TORCH)


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
