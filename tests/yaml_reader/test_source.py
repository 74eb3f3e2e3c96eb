"""YAML that is wrong gives one sentence with file, line and the nearest valid key."""

from __future__ import annotations

import errno
import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.config.project import ProjectFile
from edgetune.errors import ConfigError
from edgetune.yaml_reader.checked import check_document
from edgetune.yaml_reader.source import load_yaml, parse_yaml

HERE = Path("edgetune.yaml")


def project(text: str) -> ProjectFile:
    return check_document(ProjectFile, parse_yaml(text, HERE))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model: m.onnx\nbugdet:\n  time: 3m\n", "edgetune.yaml, line 2: unknown key 'bugdet': did you mean 'budget'?"),
        (
            "model: m.onnx\nbudget:\n  tme: 3m\n",
            "edgetune.yaml, line 3: unknown key 'budget.tme': did you mean 'time'?",
        ),
        ("model: m.onnx\nqqqq: 1\n", "edgetune.yaml, line 2: unknown key 'qqqq': valid are"),
        ("model: m.onnx\nbudget:\n\ttime: 3m\n", "edgetune.yaml, line 3: has a tab"),
        ("model: m.onnx\n\tseed: 3\n", "edgetune.yaml, line 2: has a tab"),
        ("model: m.onnx\nseed: abc\n", "edgetune.yaml, line 2: 'seed' must be a whole number, not 'abc' (text)"),
        ("model: m.onnx\nseed: 1.5\n", "edgetune.yaml, line 2: 'seed' must be a whole number, not 1.5 (a number)"),
        ("model: m.onnx\nseed: yes\n", "edgetune.yaml, line 2: 'seed' must be a whole number, not true (yes/no)"),
        ("model: m.onnx\nseed: -1\n", "edgetune.yaml, line 2: 'seed' must be at least 0, not -1 (a whole number)"),
        ("model: 12\n", "edgetune.yaml, line 1: 'model' must be text (quote it), not 12 (a whole number)"),
        ("model: [a]\n", "edgetune.yaml, line 1: 'model' must be text (quote it), not a list"),
        ("model: m.onnx\nboards: host\n", "edgetune.yaml, line 2: 'boards' must be a list, not 'host' (text)"),
        ("model: m.onnx\nboards: []\n", "edgetune.yaml, line 2: 'boards' must have at least 1 entry, not a list"),
        ("model: m.onnx\nseed: 010\n", "edgetune.yaml, line 2: '010' is an octal number: write it without the leading"),
        ("model: m.onnx\nseed: 0o17\n", "edgetune.yaml, line 2: '0o17' is an octal number"),
        ("model: m.onnx\nseed: 08\n", "edgetune.yaml, line 2: '08' is an octal number"),
        ("model: m.onnx\nseed: -0_7\n", "edgetune.yaml, line 2: '-0_7' is an octal number"),
        ("model: m.onnx\nshapes:\n  x:\n  - 1\n  - 0224\n", "edgetune.yaml, line 5: '0224' is an octal number"),
        ("model: m.onnx\nshapes: {x: [1, 03]}\n", "edgetune.yaml, line 2: '03' is an octal number"),
        ("model: m.onnx\nshapes: {007: [1]}\n", "edgetune.yaml, line 2: '007' is an octal number"),
        ("model: m.onnx\nbudget:\n  time: 1:30\n", "line 3: '1:30' is a number to the base of 60: write it as one"),
        ("model: m.onnx\nbudget: 30m\n", "edgetune.yaml, line 2: 'budget' must be a group of keys"),
        ("model: m.onnx\nbudget:\n  time: soon\n", "line 3: 'budget.time' must be a time such as 30m"),
        ("model: m.onnx\nbudget:\n  time: 3m\n  trials: 4\n", "line 2: 'budget' needs one of 'trials' and 'time'"),
        ("model: m.onnx\nmemory:\n  ram: 64 bananas\n", "line 3: 'memory.ram' must be a size such as 64KiB"),
        ("model: m.onnx\nobjective: speed\n", "line 2: 'objective' must be 'latency', not 'speed' (text)"),
        ("model: m.onnx\nshapes:\n  x: [1, -1]\n", "line 3: 'shapes.x.1' must be a fixed size of at least 0, not -1"),
        ('model: m.onnx\nshapes:\n  x: [1, "?"]\n', "line 3: 'shapes.x.1' must be a fixed size of at least 0, not '?'"),
        ("model: m.onnx\nname: 2net\n", "line 2: 'name' must have only letters, digits and single underscores"),
        ("model: m.onnx\nname: string\n", "line 2: 'name' must have only letters, digits and single underscores"),
        ("seed: 1\n", "edgetune.yaml, line 1: key 'model' is missing: add it"),
        ("", "edgetune.yaml, line 1: key 'model' is missing: add it"),
        ("model: a\nmodel: b\n", "edgetune.yaml, line 2: key 'model' was given before, on line 1"),
        ("- a\n- b\n", "edgetune.yaml, line 1: must be a list of 'key: value' lines, not a list"),
        ("model: m.onnx\n  seed: 1\n", "edgetune.yaml, line 2: is not YAML"),
        ("model: 'm.onnx\n", "is not YAML"),
        ("model: a\n---\nmodel: b\n", "is not YAML"),
        ("model: \x00\n", "edgetune.yaml, line 1: contains a character that YAML does not allow"),
        ("model: 2020-99-99\n", "edgetune.yaml: has a value that cannot be read"),
        ("model: !!python/object:os.system x\n", "edgetune.yaml, line 1: is not YAML"),
        ("model: !!bool maybe\n", "has a value that cannot be read"),
        ("a: &a\n  b: *a\n", "edgetune.yaml, line"),
        ("[" * 5000, "edgetune.yaml"),
    ],
)
def test_wrong_yaml_is_told_by_line(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        project(text)
    assert sentence in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 3


def test_several_faults_are_counted() -> None:
    with pytest.raises(ConfigError, match=r"line 1: unknown key 'sed'.*\(and 2 more\)"):
        project("sed: 1\nthreads: x\n")


def test_aliases_that_explode_are_refused() -> None:
    lines = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ConfigError, match="too large or nested too deeply"):
        parse_yaml("\n".join(lines), HERE)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "edgetune.yaml"
    with pytest.raises(ConfigError, match="does not exist"):
        load_yaml(path)
    path.write_bytes(b"model: \xff\xfe\n")
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        load_yaml(path)
    with pytest.raises(ConfigError, match="is a folder"):
        load_yaml(tmp_path)


def test_a_file_that_may_not_be_read_is_a_matter_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "boards.yaml"

    def refuse(_: Path) -> bytes:  # as for a file of somebody else; root may read them all
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ConfigError, match=re.escape(f"{path} cannot be read (Permission denied): make it readable")):
        load_yaml(path)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    try:
        project(text)
    except ConfigError as error:
        sentence = error.message
    else:
        return
    assert sentence.startswith("edgetune.yaml")


@given(st.sampled_from(sorted(ProjectFile.model_fields)), st.integers(0, 20), st.sampled_from(string.ascii_lowercase))
def test_a_key_with_one_wrong_letter_finds_its_way_back(key: str, place: int, letter: str) -> None:
    index = place % len(key)
    typo = key[:index] + letter + key[index + 1 :]
    known = set(ProjectFile.model_fields)
    if typo in known or len(key) < 4:
        return
    with pytest.raises(ConfigError) as caught:
        project(f"model: m.onnx\n{typo}: 1\n")
    assert f"line 2: unknown key '{typo}': did you mean '" in caught.value.message


@given(st.integers(1, 2**40), st.sampled_from(["", "B", " kB", "KiB", "MB", " MiB"]))
def test_sizes_mean_what_they_say(number: int, unit: str) -> None:
    factor = {"": 1, "B": 1, "kB": 1000, "KiB": 1024, "MB": 1000**2, "MiB": 1024**2}[unit.strip()]
    document = f"model: m.onnx\nmemory:\n  ram: {number}{unit}\n"
    memory = project(document).memory
    assert memory is not None
    assert memory.ram == number * factor


@pytest.mark.parametrize("text", ["seed: 0", "seed: 10", "name: '010'", 'shapes: {"007": [1]}', "seed: 0x1F"])
def test_numbers_that_mean_what_they_look_like_are_taken(tmp_path: Path, text: str) -> None:
    parse_yaml(f"model: m.onnx\n{text}\n", tmp_path / "edgetune.yaml")
