"""`make reports` and `make real-models`: what counts as right, and what the tables say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import real_models, reports
from tests.protection import kernels

_README = """| issue | cases |
|---|---|
| Doors | one (with Real models), two |
| none yet | three |
"""


def test_reports_run_each_script_and_name_its_issue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text(_README, encoding="utf-8")
    for name, said, code in (("one", "ok right", 0), ("two", "FALLS SHORT: wrong", 1), ("three", "ok but", 1)):
        script = f"import sys\nprint({said!r})\nprint('noise', file=sys.stderr)\nsys.exit({code})\n"
        (tmp_path / f"case_{name}.py").write_text(script, encoding="utf-8")
    assert reports.main(["--folder", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "| Doors | one | ok right |" in printed
    assert "| Doors | two | FALLS SHORT: wrong |" in printed
    assert "| none yet | three | ok but |" in printed
    assert "1 of 3 are ok." in printed
    assert reports.main(["--folder", str(tmp_path), "one"]) == 0
    with pytest.raises(SystemExit):
        reports.main(["--folder", str(tmp_path), "four"])


@pytest.mark.parametrize(
    ("code", "stderr", "verdict"),
    [
        (5, '{"error": {"message": "operator A is not supported"}}', real_models.REFUSED),
        (5, '{"error": {"message": "operator B is not supported"}}', real_models.FAULT),
        (1, '{"error": {"message": "a fault of edgetune itself: operator A"}}', real_models.FAULT),
        (5, "Traceback (most recent call last):\noperator A", real_models.FAULT),
        (-11, "operator A", real_models.FAULT),
    ],
)
def test_only_the_expected_refusal_of_a_real_model_is_no_fault(
    code: int, stderr: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], code, "", stderr)
    monkeypatch.setattr(real_models, "_edgetune", lambda *_: done)
    model = real_models.RealModel("p", "1", "m.onnx", refused="operator A", reason="another day")
    outcome = real_models.built(model, tmp_path / "m.onnx", "m.onnx", tmp_path / "out")
    assert outcome.verdict == verdict
    assert "operator" in outcome.said
    assert f"| p | m.onnx |  | {verdict}: {outcome.said} | - | - |" in real_models.table([outcome])


def test_a_real_model_that_is_built_and_verified_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = {"weights_bytes": 5, "arena_bytes": 7}
    verified = {"passed": True}
    answers = [subprocess.CompletedProcess([], 0, json.dumps(one), "") for one in (built, verified)]
    commands: list[str] = []

    def answer(*words: str) -> subprocess.CompletedProcess[str]:
        commands.append(" ".join(words))
        return answers.pop(0)

    monkeypatch.setattr(real_models, "_edgetune", answer)
    model = real_models.RealModel("p", "1", "m.onnx", shapes={"x": "1,2"}, states={"h": "hn"}, streams=["x:1=2"])
    outcome = real_models.built(model, tmp_path / "m.onnx", "m.onnx", tmp_path / "out")
    assert "| p | m.onnx | x=1,2 --state h=hn --stream x:1=2 | right | 7 | 5 |" in real_models.table([outcome])
    assert commands[0].endswith("--shape x=1,2 --state h=hn --stream x:1=2")


def test_each_listed_package_has_a_version_and_an_unknown_word_is_refused(tmp_path: Path) -> None:
    assert all(model.version and model.file for model in real_models.listed())
    wrong = tmp_path / "list.toml"
    wrong.write_text(
        '[[package]]\nname = "p"\nversion = "1"\n[[package.model]]\nfile = "m"\nshape = 1\n', encoding="utf-8"
    )
    with pytest.raises(TypeError, match="shape"):
        list(real_models.listed(wrong))


def _package(folder: Path, body: str, prefix: str) -> Path:
    (folder / "src").mkdir(parents=True)
    symbol = f"{prefix}__k_relu"
    manifest = {"prefix": prefix, "kernels": [{"symbol": symbol, "sources": ["relu"]}]}
    (folder / "MANIFEST.json").write_text(json.dumps(manifest), encoding="utf-8")
    code = f"/* {prefix} */\nstatic inline float {prefix}__max(float a)\n{{\n    return a;\n}}\n\n"
    code += f"void {symbol}(float *restrict b)\n{{\n    /* {body} */\n    for (;;) {{\n        {body}\n    }}\n}}\n"
    (folder / f"src/{prefix}_kernels.c").write_text(code, encoding="utf-8")
    return folder


def test_kernels_differ_by_their_code_and_not_by_names_or_comments(tmp_path: Path) -> None:
    one = kernels.kernels_of(_package(tmp_path / "1", "b[0] = a__max(1.0f);", "a"))
    same = kernels.kernels_of(_package(tmp_path / "2", "b[0] =  b__max(1.0f);", "b"))
    other = kernels.kernels_of(_package(tmp_path / "3", "b[0] = a__max(2.0f);", "a"))
    assert len(one) == 2
    assert one == same
    assert [name for name, _ in one - other] == ["relu"]
