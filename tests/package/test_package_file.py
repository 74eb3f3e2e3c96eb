"""Files of a package: where and how they are written."""

from __future__ import annotations

from pathlib import Path

from edgetune.package.package_file import PackageFile, write_files

FILES = (
    PackageFile("src/deep/net.bin", lambda: b"\x00\r\n"),
    PackageFile("src/net_rt.c", b"int usual;\n"),
    PackageFile("net.pc.in", "make/package.pc.in.j2", {"p": "net"}),
)


def test_bytes_are_written_as_they_are_and_templates_with_their_own_variables(tmp_path: Path) -> None:
    api = {"threads": 1, "external_weights": False}
    context = {"version": (1, 2, 3), "target": {"name": "board"}, "flags": {"arch": []}, "api": api}
    write_files(tmp_path, FILES, context)
    assert (tmp_path / "src/deep/net.bin").read_bytes() == b"\x00\r\n"
    assert (tmp_path / "src/net_rt.c").read_bytes() == b"int usual;\n"
    assert "\nName: net\n" in (tmp_path / "net.pc.in").read_text(encoding="utf-8")
