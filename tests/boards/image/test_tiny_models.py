"""Two trained models on every emulated microcontroller; `make firmware` has all (tests/firmware_models.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.firmware_models import BOARDS, fault


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("model", ["kws_int8", "ad_int8"])
def test_outputs_are_those_of_litert_to_the_last_bit(model: str, board: str, tmp_path: Path) -> None:
    assert fault(board, model, tmp_path) == ""
