"""The rules of this suite hold: a skipped test fails the run, golden files change only when asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


def pytest_run(folder: Path, body: str, *flags: str, conftest: str | None = None) -> subprocess.CompletedProcess[str]:
    tests = folder / "tests"
    tests.mkdir(exist_ok=True)
    (tests / "conftest.py").write_text(conftest or CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
    (tests / "test_it.py").write_text(body, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        *flags,
        str(tests),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("def test_it():\n    pass\n", 0),
        ("import pytest\ndef test_other():\n    pass\ndef test_it():\n    pytest.skip('no tool')\n", 1),
        ("import pytest\npytest.importorskip('no_such_module')\n", 1),
        ("import pytest\n@pytest.mark.xfail\ndef test_it():\n    assert False\n", 1),
    ],
)
def test_what_could_not_run_fails(tmp_path: Path, body: str, code: int) -> None:
    done = pytest_run(tmp_path, body)
    failed = done.returncode != 0
    assert failed == bool(code), done.stdout
    assert ("which counts as failed" in done.stdout) == bool(code)


@pytest.mark.long
def test_without_nvcc_tests_that_need_it_are_skipped_by_name_and_ci_fails(tmp_path: Path) -> None:
    body = (
        "import pytest\n"
        "@pytest.mark.nvcc\n@pytest.mark.parametrize('number', range(2))\n"
        "def test_a_kernel(number):\n    assert False\n"
        "def test_it():\n    pass\n"
    )
    conftest = CONFTEST.read_text().replace("find_nvcc() is None", "True")
    assert conftest != CONFTEST.read_text()
    done = pytest_run(tmp_path, body, conftest=conftest)
    assert done.returncode == 0, done.stdout
    assert "2 tests left out for want of tools; `make system` installs what Debian has" in done.stdout
    assert "2 need nvcc (pip install 'edgetune[cuda]' installs it)" in done.stdout
    strict = pytest_run(tmp_path, body, "--no-skips", conftest=conftest)
    assert strict.returncode not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}  # and is not run once more
    assert "2 tests left out for want of tools, which counts as failed" in strict.stdout


@pytest.mark.long
def test_without_torch_tests_that_need_it_are_skipped_by_name(tmp_path: Path) -> None:
    body = "import pytest\n@pytest.mark.torch\ndef test_a_module():\n    assert False\ndef test_it():\n    pass\n"
    conftest = CONFTEST.read_text().replace("map(find_spec,", "map(lambda _: None,")
    assert conftest != CONFTEST.read_text()
    done = pytest_run(tmp_path, body, conftest=conftest)
    assert done.returncode == 0, done.stdout
    assert "1 need torch (`TORCH=1 make test` installs it)" in done.stdout


def test_ci_has_torch() -> None:
    assert "env TORCH=1 make test" in (CONFTEST.parents[1] / ".ci/run").read_text()


def test_ci_allows_no_skips() -> None:
    assert "PYTEST_FLAGS=--no-skips" in (CONFTEST.parents[1] / ".ci/run").read_text()
    assert "$(PYTEST_FLAGS)" in (CONFTEST.parents[1] / "Makefile").read_text()


@pytest.mark.long
def test_golden_files(tmp_path: Path) -> None:
    body = "def test_it(golden):\n    golden('sub/a.txt', 'text')\n"
    assert "is missing" in pytest_run(tmp_path, body).stdout
    assert pytest_run(tmp_path, body, "--update-golden").returncode == 0
    assert pytest_run(tmp_path, body).returncode == 0
    assert "differs" in pytest_run(tmp_path, body.replace("'text'", "'other'")).stdout
