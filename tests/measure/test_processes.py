"""What the system reports of the process of a candidate is read to the end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from edgetune.resources import templates_dir

_PROGRAM = """#define _GNU_SOURCE
#include "processes.h"
int main(void)
{
    printf("%u", threads_told(0));
    return threads_count() == 1 ? 0 : 1;
}
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    (folder / "reader.c").write_text(_PROGRAM)
    headers = f"-I{templates_dir() / 'agent'}"
    warnings = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
    command = ["gcc", "-std=gnu11", *warnings, headers, "-o", str(folder / "reader"), str(folder / "reader.c")]
    subprocess.run(command, check=True)
    return folder / "reader"


@pytest.mark.parametrize("groups", [0, 40, 83, 400, 70_000])
def test_threads_are_counted_whatever_stands_before(reader: Path, tmp_path: Path, groups: int) -> None:
    listed = " ".join(str(100_000 + number) for number in range(groups))
    status = tmp_path / "status"
    status.write_text(f"Name:\tThreads:\t9\nGroups:\t{listed}\nThreads:\t12\nSigQ:\t3/100\n")
    with status.open("rb") as file:
        done = subprocess.run([reader], stdin=file, capture_output=True, text=True, check=True)
    assert done.stdout == "12"


def test_who_does_not_tell_has_none(reader: Path) -> None:
    done = subprocess.run([reader], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert done.stdout == "0"
