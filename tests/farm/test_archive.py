"""Models in the archive: found by their hash, never one that is damaged or another one."""

from __future__ import annotations

import errno
import hashlib
import re
from pathlib import Path

import pytest

from edgetune.errors import NightFault
from edgetune.farm.archive import PACKAGE, find_model, keep, keep_model


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


def test_an_archive_that_is_read_only_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, kept = tmp_path / "new" / PACKAGE, tmp_path / "archive"
    package.mkdir(parents=True)
    (package / "a.c").write_text("int a;\n")
    model = tmp_path / "m.onnx"
    model.write_bytes(b"model")

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")  # root may write where permissions forbid it

    monkeypatch.setattr("edgetune.farm.archive.tempfile.NamedTemporaryFile", read_only)
    said = (
        rf"^the archive {re.escape(str(kept))} cannot be written \(Read-only file system\): give another as 'archive'"
    )
    with pytest.raises(NightFault, match=said):
        keep(kept, tmp_path / "new")
    with pytest.raises(NightFault, match=said):
        keep_model(kept, model, hashlib.sha256(b"model").hexdigest())
