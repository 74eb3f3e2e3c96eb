"""`make demo` from its script on: what a newcomer types first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_demo_ends_with_a_verified_package_and_a_comparison(tmp_path: Path) -> None:
    bin_ = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "DEMO_TIME": "2s"}
    command = ["bash", str(ROOT / "examples/demo.sh"), str(tmp_path / "ds_cnn")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "\nPASS\n" in done.stdout
    assert re.search(r"edgetune package +\d+\.\d us", done.stdout)
    assert re.search(r"ratio, package / ONNX Runtime: \d+\.\d\d\n\Z", done.stdout)
    assert (tmp_path / "records.db").is_file()
