"""Packages of two checkouts are compared byte by byte, wherever they lie."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.same_packages import code_differences, differences, main


def package(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / re.sub("__(?=c$)", ".", name).replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_changed_byte_and_a_missing_file_are_found(tmp_path: Path) -> None:
    before = package(tmp_path / "build" / "before", src__kernels="a", include__x="b", build__x="1")
    same = package(tmp_path / "build" / "same", src__kernels="a", include__x="b", build__x="2")
    changed = package(tmp_path / "build" / "changed", src__kernels="A", include__x="b")
    less = package(tmp_path / "build" / "less", src__kernels="a")
    assert differences(before, same).different == ()
    assert differences(before, changed).different == ("src/kernels",)
    assert differences(before, less).different == ("include/x",)


@pytest.mark.parametrize(("after", "status"), [("a", 0), ("b", 1)])
def test_the_exit_status_says_whether_they_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], after: str, status: int
) -> None:
    def built(_checkout: Path, _model: Path, _board: str, folder: Path, _threads: int) -> None:
        package(folder, src__kernels="a" if "before" in folder.parts else after)

    monkeypatch.setattr("benchmarks.same_packages.build", built)
    words = [str(tmp_path), str(tmp_path), "--models", "m.onnx", "--boards", "host", "--out", str(tmp_path / "out")]
    assert main(words) == status
    assert f"1 files compared, {status} differ" in capsys.readouterr().out


def test_nothing_compared_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.same_packages.build", lambda *_: None)
    assert main([str(tmp_path), str(tmp_path), "--models", "m.onnx", "--boards", "host", "--out", str(tmp_path)]) == 1


KERNEL = """/* Doubles. */
static __attribute__((noinline)) float helped(float x) { return 2.0f * x; }
float net_first(float x);
float net_first(float x) { return helped(x) + 3.0f; }
int net_second(int n) { return n * 5; }
"""
MAKEFILE = "$(OBJDIR)/%.o: src/%.c\n\tmkdir -p $(OBJDIR)\n\t$(CC) -O3 -ffunction-sections -c $< -o $@\n"


def compiled(folder: Path, text: str, compiler: str) -> Path:
    return package(folder, src__net__c=text, Makefile=f"CC = {compiler}\n{MAKEFILE}")


@pytest.mark.parametrize("compiler", ["gcc", "aarch64-linux-gnu-gcc", "arm-linux-gnueabihf-gcc"])
@pytest.mark.parametrize(
    ("old", "new", "different"),
    [
        ("helped", "net__helped", False),
        ("/* Doubles. */", "/* Twice\n   as much. */\n", False),
        ("2.0f * x", "2.0f*x", False),
        ("3.0f", "3.5f", True),
        ("* 5", "* 6", True),
        ("int net_second(int n) { return n * 5; }", "", True),
    ],
)
def test_machine_code_differs_by_what_is_computed_alone(
    tmp_path: Path, compiler: str, old: str, new: str, different: bool
) -> None:
    before = compiled(tmp_path / "before", KERNEL, compiler)
    after = compiled(tmp_path / "after", KERNEL.replace(old, new), compiler)
    found = code_differences(before, after)
    assert found.compared == 1
    assert found.different == (("net.o",) if different else ())
