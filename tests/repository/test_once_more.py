"""What CI does about tests that fail beside others: a few run once more, alone; what fails then has failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci/once-more.sh"
TESTS = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({flaky}))
def test_fails_once(number):
    flag = Path(f"flag{{number}}")
    seen = flag.exists()
    flag.touch()
    assert seen

def test_always():
    assert {right}
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("flaky", "right", "passes", "words"),
    [
        (0, True, True, "1 passed"),
        (3, True, True, "=== 3 of the tests failed beside others and passed alone, to be mended:"),
        (4, True, False, "4 tests failed: they are not run once more"),
        (1, False, False, "1 failed, 1 passed"),
    ],
)
def test_few_failures_are_run_alone_and_named(
    tmp_path: Path, flaky: int, right: bool, passes: bool, words: str
) -> None:
    (tmp_path / "test_some.py").write_text(TESTS.format(flaky=flaky, right=right))
    pytest_program = Path(sys.executable).with_name("pytest")
    done = subprocess.run(
        ["sh", SCRIPT, pytest_program, "--quiet"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is passes, done.stdout
    assert words in done.stdout
    assert ("test_some.py::test_fails_once[0]" in done.stdout.partition("=== run once more")[2]) is (0 < flaky <= 3)
    if flaky and passes:
        assert done.stdout.splitlines()[-flaky:] == [f"test_some.py::test_fails_once[{i}]" for i in range(flaky)]


SEEDED = """
from pathlib import Path
from hypothesis import given, settings
from hypothesis import strategies as st

@settings(derandomize=False, database=None)
@given(st.integers())
def test_random(number):
    with Path("tried").open("a") as file:
        file.write(f"{number} ")
    assert Path("tried").read_text().count(" ") < 5
"""


@pytest.mark.long
def test_the_second_run_tries_the_examples_of_the_first(tmp_path: Path) -> None:
    """What a seed finds fails again."""
    (tmp_path / "test_some.py").write_text(SEEDED)
    pytest_program = str(Path(sys.executable).with_name("pytest"))
    command = ["sh", str(SCRIPT), pytest_program, "--quiet", "--numprocesses", "2", "--hypothesis-seed", "7"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "=== run once more, alone:\ntest_some.py::test_random" in done.stdout
    assert done.returncode == 1, done.stdout


@pytest.mark.long
def test_what_failed_in_an_earlier_run_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS.format(flaky=1, right=True))
    (tmp_path / "test_other.py").write_text("def test_other():\n    raise AssertionError\n")
    pytest_program = str(Path(sys.executable).with_name("pytest"))
    subprocess.run([pytest_program, "--quiet", "test_other.py"], cwd=tmp_path, capture_output=True, check=False)
    command = ["sh", str(SCRIPT), pytest_program, "--quiet", "--deselect", "test_other.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "=== 1 of the tests failed beside others" in done.stdout


def test_a_run_that_broke_is_no_matter_of_tests(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", SCRIPT, Path(sys.executable).with_name("pytest"), "--nonsense"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "once more" not in done.stdout
