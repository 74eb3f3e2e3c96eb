"""What a board has of our files, by content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetune.boards.agent.contents import Contents


def test_one_content_at_two_paths_outlives_the_first(tmp_path: Path) -> None:
    first, second = tmp_path / "first.so", tmp_path / "second.so"
    for path in (first, second):
        path.write_bytes(b"the same")
    contents = Contents()
    name = contents.put(first)[0].name
    content, frames = contents.put(second)
    assert (content.name, frames) == (name, [])
    first.unlink()
    assert contents.spare([], 0)
    assert contents.named(name).path == second
    assert contents.bring(contents.named(name))
    second.unlink()
    contents.spare([], 0)
    with pytest.raises(KeyError):
        contents.named(name)  # a long run does not grow


def test_the_path_that_was_put_last_is_the_one_that_is_read(tmp_path: Path) -> None:
    first, second = tmp_path / "first.npy", tmp_path / "second.npy"
    for path in (first, second):
        np.save(path, np.arange(3))
    contents = Contents()
    for path in (first, second, first):
        name = contents.put(path)[0].name
    second.unlink()
    contents.all_gone()
    assert contents.bring(contents.named(name))
