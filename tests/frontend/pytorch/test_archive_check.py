"""An archive in which torch would find code is refused before torch sees it; plain programs pass."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.errors import ModelError
from edgetune.frontend.pytorch.archive_check import is_size, require_data_only

Program = dict[str, Any]


def program(**changes: Any) -> Program:
    """A program as torch.export writes it, of one node; `changes` are of the node."""
    node = {
        "target": "torch.ops.aten.add.Tensor",
        "inputs": [
            {"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
            {"name": "other", "arg": {"as_string": "it's (mine)"}, "kind": 1},
        ],
        "outputs": [{"as_tensor": {"name": "add"}}],
        "metadata": {"stack_trace": 'File "m.py", line 1, in forward\n    return eval("x + 1")'},
        "name": "add",
    }
    sizes = [{"as_expr": {"expr_str": "Max(1, 2*s77 + 3) // 2", "hint": None}}, {"as_int": 3}]
    graph = {
        "inputs": [{"as_tensor": {"name": "x"}}],
        "nodes": [node | changes],
        "tensor_values": {"x": {"dtype": 7, "sizes": sizes, "device": {"type": "cpu", "index": None}}},
    }
    signature = {"input_specs": [{"parameter": {"arg": {"name": "p_w"}, "parameter_name": "layers.0.w"}}]}
    spec = '[1, {"type": "builtins.tuple", "context": "null", "children_spec": []}]'
    return {
        "graph_module": {
            "graph": graph,
            "signature": signature,
            "module_call_graph": [{"fqn": "", "signature": {"in_spec": spec, "out_spec": spec}}],
        },
        "range_constraints": {"s77": {"min_val": 0, "max_val": None}},
        "guards_code": ["L['x'].size()[0] > 2"],
        "torch_version": "2.13.0+cpu (mine)",
    }


def write(path: Path, document: Program | None = None, **members: Any) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/archive_format", "pt2")
        archive.writestr("net/models/model.json", json.dumps(program() if document is None else document))
        payload = {"config": {"layers.0.w": {"path_name": "weight_0", "use_pickle": False}}}
        archive.writestr("net/data/weights/model_weights_config.json", json.dumps(payload))
        for name, content in members.items():
            archive.writestr(f"net/{name}", content if isinstance(content, str) else json.dumps(content))
    return path


def with_expression(text: str) -> Program:
    document = program()
    document["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = text
    return document


def with_structure(text: str) -> Program:
    document = program()
    document["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = text
    return document


def constants(path_name: str) -> dict[str, Any]:
    return {"data/constants/model_constants_config.json": {"config": {"thing": {"path_name": path_name}}}}


def test_a_plain_program_passes(tmp_path: Path) -> None:
    path = write(tmp_path / "net.pt2")
    require_data_only(path, path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(
            lambda p: write(p, None, **{"data/aotinductor/model/m.so": ""}), "compiled library", id="compiled"
        ),
        pytest.param(lambda p: write(p, None, **constants("opaque_obj_0")), "object of Python", id="pickled object"),
        pytest.param(lambda p: write(p, None, **constants("custom_obj_0")), "object of Python", id="script object"),
        pytest.param(lambda p: write(p, None, **constants("../../weight_0")), "object of Python", id="other member"),
        pytest.param(lambda p: write(p, with_expression("exec(chr(49))")), "expr_str", id="call in a size"),
        pytest.param(lambda p: write(p, with_expression("s0.func")), "expr_str", id="attribute in a size"),
        pytest.param(lambda p: write(p, with_expression("s0['a']")), "expr_str", id="text in a size"),
        pytest.param(lambda p: write(p, program(target="torch.hub.load")), "target", id="function of torch"),
        pytest.param(lambda p: write(p, program(target="torch.ops.load_library")), "target", id="library"),
        pytest.param(lambda p: write(p, program(target="_operator.attrgetter")), "target", id="function of Python"),
        pytest.param(lambda p: write(p, program(name="x = open('f')\nadd")), "name", id="code as a name"),
        pytest.param(lambda p: write(p, with_structure('{"__enum__": true}')), "in_spec", id="class of an enumeration"),
        pytest.param(lambda p: write(p, with_structure('{"default_factory_module": "os"}')), "in_spec", id="factory"),
    ],
)
def test_what_would_run_code_is_refused_with_three_lines(
    tmp_path: Path, make: Callable[[Path], Path], words: str
) -> None:
    path = make(tmp_path / "net.pt2")
    with pytest.raises(ModelError) as refusal:
        require_data_only(path, path)
    sentence, *lines = str(refusal.value).splitlines()
    assert words in sentence
    assert len(lines) == 3
    assert f"torch.export.load({str(path)!r})" in lines[0]
    assert "edgetune.load(program)" in lines[1]


def deep(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/models/model.json", "[" * 200_000)


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/models/model.json", " " * 10_000_000)


def cut(path: Path) -> None:
    write(path)
    path.write_bytes(path.read_bytes()[:-30])


def two(path: Path) -> None:
    write(path, None, **{"models/other.json": {}})


@pytest.mark.parametrize(
    ("make", "words"),
    [(deep, "not a whole"), (bomb, "larger than the file"), (cut, "not a whole"), (two, "2 programs instead of one")],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    path = tmp_path / "net.pt2"
    make(path)
    with pytest.raises(ModelError, match=words):
        require_data_only(path, path)


_SIZES = st.recursive(
    st.sampled_from(["s77", "u0", "zf1", "12", "1.5", "True"]),
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from(["+", "-", "*", "//", "/", "%", "**", "<="]), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["Max", "FloorDiv", "PythonMod", "Eq"]), inner, inner),
        st.builds("({})".format, inner),
    ),
)


@given(_SIZES)
def test_sizes_that_only_compute_are_known(text: str) -> None:
    assert is_size(text)


@given(_SIZES, st.sampled_from(["open", "exec", "getattr", "__import__", "S", "chr", "Symbol"]))
def test_a_size_with_any_other_name_is_refused(text: str, name: str) -> None:
    assert not is_size(f"{text} + {name}(1)")
    assert not is_size(text.replace("s77", name)) or "s77" not in text


@given(_SIZES, st.sampled_from([".", "'", '"', "[", "{", ";", ":", "\\", "@", "`", "$", "#"]))
def test_a_size_with_any_other_sign_is_refused(text: str, sign: str) -> None:
    assert not is_size(f"{text} {sign}")
