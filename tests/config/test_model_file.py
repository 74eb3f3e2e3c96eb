"""What is at a path that is no file is said, and what is there is not called missing."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from edgetune.config.model_file import not_a_file


def test_what_is_there_and_no_file_is_not_called_missing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "file").write_bytes(b"x")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        said = {
            name: not_a_file(path)
            for name, path in {
                "null": Path("/dev/null"),
                "folder": tmp_path,
                "pipe": tmp_path / "pipe",
                "socket": tmp_path / "socket",
                "link": tmp_path / "nowhere",
                "gone": tmp_path / "gone",
                "under a file": tmp_path / "file" / "m.onnx",
                "file": tmp_path / "file",
            }.items()
        }
    assert said == {
        "null": "is a device, not a file",
        "folder": "is a folder, not a file",
        "pipe": "is a named pipe, not a file",
        "socket": "is a socket, not a file",
        "link": "is a link to nothing",
        "gone": "does not exist",
        "under a file": "does not exist",
        "file": None,
    }
