"""A short soak: boards of two twins suffer faults while they are tuned on, and nothing is lost, doubled or hung."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tests.acceptance.soak import soak


@pytest.mark.long
def test_nothing_is_lost_when_boards_misbehave(tmp_path: Path) -> None:
    options = argparse.Namespace(faults=6, boards=2, seed=3, pause=1.5, hostile=10)
    said = soak(tmp_path, options)
    assert "6 faults" in said
    assert "lost" in said
