"""Fixtures of the tests of boards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boards.ssh_bench import Bench, opened


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A user's home and boards reached by SSH."""
    with opened(tmp_path / "user", monkeypatch) as bench:
        yield bench
