"""pydantic's own wording never reaches a user: whatever is wrong with a file, the sentence is ours."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticKnownError, core_schema

from edgetune.config.boards_file import BoardsFile
from edgetune.config.project import ProjectFile, UserFile
from edgetune.errors import EdgetuneError
from edgetune.package.manifest_model import complaint as manifest_complaint
from edgetune.records.record import FIELDS, parse_line
from edgetune.target.target import DetectedTarget, Target
from edgetune.yaml_reader.checked import Checked, check_document, check_values
from edgetune.yaml_reader.messages import requirement
from edgetune.yaml_reader.source import YamlDocument

THEIRS = re.compile(
    r"(Input|String|List|Tuple) should|Value error|valid (integer|string|dict|number|list|tuple|bool)|instance of"
    r"|after validation|pydantic|unable to parse|Field required|Extra inputs|_error\b|_type\b"
)
CONTEXT: dict[str, object] = {
    **dict.fromkeys(("gt", "ge", "lt", "le", "multiple_of"), 3),
    **dict.fromkeys(("min_length", "max_length", "actual_length"), 1),
    **dict.fromkeys(("pattern", "expected", "error", "class_name", "field_type", "method_name", "encoding"), "x"),
}


@pytest.mark.parametrize("kind", typing.get_args(core_schema.ErrorType))
def test_every_kind_of_error_has_words_of_ours(kind: str) -> None:
    words = requirement(kind, CONTEXT)
    assert not THEIRS.search(words)
    assert words.startswith(("must ", "is not known"))
    assert kind not in words
    try:
        template = PydanticKnownError(kind, None).message_template  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return  # one that has no words without its context
    assert words != template


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["host", "30m", "1KiB", "latency", "A", "h:1", "rpi4", "", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MODELS: tuple[type[Checked], ...] = (ProjectFile, UserFile, BoardsFile, Target, DetectedTarget)


def filled(names: list[str]) -> st.SearchStrategy[dict[str, object]]:
    """Some of the keys that are known, and one that may not be."""
    return st.dictionaries(st.sampled_from([*names, "nobody"]), VALUES, max_size=6)


def said(act: Callable[[], object]) -> str:
    """The sentence that `act` is refused with, "" where it is not."""
    try:
        act()
    except EdgetuneError as error:
        return error.message
    return ""


@pytest.mark.parametrize("model", MODELS)
@given(data=st.data())
def test_whatever_a_file_holds(model: type[Checked], data: st.DataObject) -> None:
    content = data.draw(filled(list(model.model_fields)))
    for sentence in (
        said(lambda: check_document(model, YamlDocument(Path("f.yaml"), content, {}))),
        said(lambda: check_values(model, content)),
    ):
        assert not THEIRS.search(sentence), sentence


GROUPS = ("model", "target", "memory", "goldens")
LISTS = ("inputs", "outputs", "layers", "kernels")


@given(
    filled(["threads", "name", "prefix", *GROUPS, *LISTS, "files"]),
    filled(["file", "name", "isa", "compiler", "cases", "shape", "bytes", "tolerance", "weights_placement"]),
)
def test_whatever_a_manifest_holds(content: dict[str, object], inner: dict[str, object]) -> None:
    nested = {**content, **{name: inner for name in GROUPS if name in content}}
    nested |= {name: [inner] for name in LISTS if name in content}
    sentence = manifest_complaint(nested) or ""
    assert not THEIRS.search(sentence), sentence


@given(filled([*FIELDS]))
def test_whatever_a_line_of_records_holds(content: dict[str, object]) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_line(json.dumps(content))
    assert not THEIRS.search(str(refusal.value)), refusal.value
