"""Models in the archive: found by their hash, never one that is damaged or another one."""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgetune.farm.archive import find_model, keep_model


def test_a_model_is_found_by_its_hash_and_not_where_it_is_damaged(tmp_path: Path) -> None:
    model, archive = tmp_path / "m.onnx", tmp_path / "archive"
    model.write_bytes(b"model")
    digest = hashlib.sha256(b"model").hexdigest()
    keep_model(archive, model, "0" * 64)  # several files have the hash of all of them
    assert not archive.exists()
    keep_model(archive, model, digest)
    model.unlink()
    found = find_model(archive, digest, ".onnx")
    assert found is not None
    assert found.read_bytes() == b"model"
    found.write_bytes(b"other")
    assert find_model(archive, digest, ".onnx") is None
    model.write_bytes(b"model")
    keep_model(archive, model, digest)
    assert find_model(archive, digest, ".onnx") == found
