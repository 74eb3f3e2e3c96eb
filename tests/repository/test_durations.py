"""What a run costs is counted by the kernel and shown by room; a file that costs much has a reason."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durations import table
from tests.durations.processes import accounted, program
from tests.durations.recorded import recorded
from tests.durations.run import NOT_OBSERVED, SECONDS
from tests.missing_tools import LEFT_OUT

ROOT = Path(__file__).parents[2]
TESTS = """
import os, subprocess, time
import pytest

def computes(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def test_compiles(tmp_path):
    computes(0.1)
    (tmp_path / "a.c").write_text("int a(void); int a(void) { return 1; }")
    subprocess.run(["sh", "-c", "gcc -c a.c && true"], cwd=tmp_path, check=True, env={"PATH": os.environ["PATH"]})

@pytest.mark.long
def test_computes():
    computes(0.3)
"""
_RUN = """
import sys
from pathlib import Path
from tests.durations import processes, run
processes._accounting = lambda path: None  # a machine has one: it may be on for the run that this test is part of
sys.exit(run.main(sys.argv[2:], Path(sys.argv[1])))
"""


@pytest.mark.parametrize(
    ("name", "label"),
    [("cc1", "gcc"), ("aarch64-linux-gnu-gcc-12", "gcc"), ("ld", "gcc"), ("clang-19", "clang"), ("ptxas", "nvcc"),
     ("qemu-system-aarch64", "qemu"), ("python3.11", "python"), ("sshd", "sshd")],
)  # fmt: skip
def test_programs_go_by_one_name(name: str, label: str) -> None:
    assert program(name) == label


def test_records_of_the_kernel_are_read_as_it_writes_them() -> None:
    """comp_t has 13 bits of number and 3 of an exponent to the base 8: 5 << 3 hundredths of a second are 0.4 s."""
    times = (3, (1 << 13) | 5, 0, 0, 0, 0, 0, 0)
    record = struct.pack("<BBHIIIIIIf8H16s", 0, 3, 0, 0, 0, 0, 1234, 1, 0, 0.5, *times, b"cc1")
    ((pid, name, seconds),) = accounted(record + b"half a record")
    assert (pid, name) == (1234, "cc1")
    assert seconds == pytest.approx(0.43)


def measured(folder: Path, tests: str) -> tuple[int, Path]:
    """Run tests in a folder; return the exit status and where their rows are, if any."""
    (folder / "test_some.py").write_text(tests)
    (folder / "conftest.py").write_text(
        'def pytest_configure(config):\n    config.addinivalue_line("markers", "long")\n'
    )
    script, written = folder / "run.py", folder / "durations.json"
    script.write_text(_RUN)
    command = [sys.executable, str(script), str(written), "--numprocesses", "2", "--rootdir", str(folder), str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DURATIONS_NOTES": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == NOT_OBSERVED:
        assert "durations: " in done.stderr
        pytest.skip(f"{LEFT_OUT}root's rights")
    return done.returncode, written


@pytest.mark.long
def test_what_a_file_costs_is_counted(tmp_path: Path) -> None:
    """Whatever environment its programs get; files that ran earlier and are still there keep their rows."""
    (tmp_path / "test_old.py").touch()
    (tmp_path / "durations.json").write_text('{"test_old.py": {}, "test_gone.py": {}}')
    status, written = measured(tmp_path, TESTS)
    assert status == 0
    rows = json.loads(written.read_text())
    assert set(rows) == {"test_old.py", "test_some.py"}
    row = rows["test_some.py"]
    assert row["tests"] == 2
    assert row["started"]["gcc"] >= 3  # the driver, cc1 and as
    assert row["started"]["others"] >= 1
    assert row["cpu_s"] >= 0.25
    assert row["long_cpu_s"] >= 0.25
    assert row["long_cpu_s"] < row["cpu_s"]


@pytest.mark.long
def test_nothing_is_written_where_a_test_fails(tmp_path: Path) -> None:
    status, written = measured(tmp_path, TESTS + "    raise AssertionError\n")
    assert status == 1
    assert not written.exists()


def test_rooms_add_up() -> None:
    row = {
        "tests": 2,
        "wall_s": 3.0,
        "cpu_s": 2.0,
        "long_cpu_s": 1.0,
        "started": {"gcc": 4},
        "programs_cpu_s": {"gcc": 0.5},
    }
    rows = table.by_room({"tests/a/test_1.py": row, "tests/a/b/test_2.py": row, "tests/c/test_3.py": row})
    assert [line[0] for line in rows] == ["room", "a", "c", "all"]
    assert rows[1][1:8] == ["4", "6", "4", "2", "3", "1", "0"]
    assert rows[-1][1] == "6"


def test_each_dear_file_has_its_reason() -> None:
    """`make durations` writes the file; a reason is a sentence in `tests/durations/table.py`."""
    rows = recorded()
    assert all(set(SECONDS) <= set(row) for row in rows.values())  # what the choice of long tests reads
    assert sum(row["long_wall_s"] for row in rows.values()) > 0
    dear = {file for file, row in rows.items() if row["cpu_s"] > table.DEAR_S}
    assert dear == set(table.REASONS)
    assert all((ROOT / file).is_file() for file in dear)
