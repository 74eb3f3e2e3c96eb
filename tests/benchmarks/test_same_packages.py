"""Packages of two checkouts are compared byte by byte, wherever they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.same_packages import differences, main


def package(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_changed_byte_and_a_missing_file_are_found(tmp_path: Path) -> None:
    before = package(tmp_path / "build" / "before", src__kernels="a", include__x="b", build__x="1")
    same = package(tmp_path / "build" / "same", src__kernels="a", include__x="b", build__x="2")
    changed = package(tmp_path / "build" / "changed", src__kernels="A", include__x="b")
    less = package(tmp_path / "build" / "less", src__kernels="a")
    assert differences(before, same) == []
    assert differences(before, changed) == ["src/kernels"]
    assert differences(before, less) == ["include/x"]


@pytest.mark.parametrize(("after", "status"), [("a", 0), ("b", 1)])
def test_the_exit_status_says_whether_they_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], after: str, status: int
) -> None:
    def built(_checkout: Path, _model: Path, _board: str, folder: Path) -> None:
        package(folder, src__kernels="a" if "before" in folder.parts else after)

    monkeypatch.setattr("benchmarks.same_packages.build", built)
    words = [str(tmp_path), str(tmp_path), "--models", "m.onnx", "--boards", "host", "--out", str(tmp_path / "out")]
    assert main(words) == status
    assert f"1 files compared, {status} differ" in capsys.readouterr().out


def test_nothing_compared_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.same_packages.build", lambda *_: None)
    assert main([str(tmp_path), str(tmp_path), "--models", "m.onnx", "--boards", "host", "--out", str(tmp_path)]) == 1
