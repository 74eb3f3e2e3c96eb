"""An archive in which torch would find code is refused before torch sees it; plain programs pass."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetune.errors import ModelError
from edgetune.frontend.pytorch.archive_check import copy_data, require_data_only

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
    require_data_only(path)


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
        require_data_only(path)
    sentence, *lines = str(refusal.value).splitlines()
    assert words in sentence
    assert len(lines) == 3
    assert f"torch.export.load({str(path)!r})" in lines[0]
    assert "edgetune.load(program)" in lines[1]


@pytest.mark.parametrize("name", ["as_string", "guards_code", "metadata", "torch_version", "verifiers", "expr_str"])
@pytest.mark.parametrize("values", ["tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values"])
def test_the_name_of_a_tensor_or_a_size_does_not_say_how_it_is_checked(tmp_path: Path, values: str, name: str) -> None:
    for text, accepted in (("s77 + 1", True), ("__import__('os').system('id')", False)):
        size = {"as_expr": {"expr_str": text, "hint": None}}
        document = program()
        document["graph_module"]["graph"][values] = {name: {"sizes": [size]} if values == "tensor_values" else size}
        path = write(tmp_path / "net.pt2", document)
        if accepted:
            require_data_only(path)
        else:
            with pytest.raises(ModelError, match="text at 'expr_str' that Python could execute"):
                require_data_only(path)


def payload(file: str) -> dict[str, Any]:
    return {"config": {"thing": {"path_name": file, "use_pickle": True}}}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"Models/model.json": with_expression("exec(chr(49))")}, "two members of the same name"),
        ({"Data/Weights/model_weights_config.json": payload("opaque_obj_0")}, "two members of the same name"),
        ({"models/a/b.json": program()}, "2 programs instead of one"),
        ({"models/model": program()}, "2 programs instead of one"),
        ({"extra/a\\b.txt": "x"}, "member with two names"),
    ],
)
def test_members_that_torch_could_take_for_others_are_refused(
    tmp_path: Path, members: dict[str, Any], words: str
) -> None:
    path = write(tmp_path / "net.pt2", None, **members)
    with pytest.raises(ModelError, match=words):
        require_data_only(path)


def test_a_second_folder_and_a_name_with_a_nul_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "net.pt2", None, **{"extra/x": ""})
    whole = path.read_bytes()
    for new, words in ((b"Net/extra/x", "more than one folder"), (b"net/extra\0x", "member with two names")):
        path.write_bytes(whole.replace(b"net/extra/x", new))
        with pytest.raises(ModelError, match=words):
            require_data_only(path)


def deep(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/models/model.json", "[" * 200_000)


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/models/model.json", " " * 10_000_000)


def cut(path: Path) -> None:
    write(path)
    path.write_bytes(path.read_bytes()[:-30])


def corrupt(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/models/model.json", json.dumps(program()))
        archive.writestr("net/data/weights/weight_0", bytes(10_000), zipfile.ZIP_STORED)
        start = archive.infolist()[0].header_offset + 30 + len("net/models/model.json")
    content = bytearray(path.read_bytes())
    content[start : start + 4] = b"\xff" * 4
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive, pytest.raises(zlib.error):
        archive.read("net/models/model.json")


def encrypted(path: Path) -> None:
    write(path)
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := content.find(signature, at + 1)) >= 0:
            content[at + flags] |= 1
    path.write_bytes(content)


def newer(path: Path) -> None:
    write(path)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 250
    path.write_bytes(content)


def two(path: Path) -> None:
    write(path, None, **{"models/other.json": {}})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (deep, "not a whole"),
        (bomb, "larger than the file"),
        (cut, "not a whole"),
        (corrupt, "not a whole .*while decompressing"),
        (encrypted, "not a whole .*is encrypted"),
        (newer, "not a whole .*zip file version 25"),
        (two, "2 programs instead of one"),
    ],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    path = tmp_path / "net.pt2"
    make(path)
    with pytest.raises(ModelError, match=words):
        require_data_only(path)


def test_torch_reads_a_copy_of_those_members_that_were_checked(tmp_path: Path) -> None:
    extra = {"extra/ä.txt": "x", "data/weights/weight_0": "1234", "data/weights/a-b_weights_config.json": payload("o")}
    path = write(tmp_path / "net.pt2", None, **extra)
    copy_data(path, tmp_path / "copy.pt2", path)
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(tmp_path / "copy.pt2") as copied:
        assert copied.namelist() == [
            "program/archive_format",
            "program/models/model.json",
            "program/data/weights/model_weights_config.json",
            "program/data/weights/weight_0",
        ]
        for name in copied.namelist():
            assert copied.read(name) == given.read(name.replace("program/", "net/"))


def test_the_first_format_has_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (("version", "8.1"), ("serialized_exported_program.json", json.dumps(program()))):
            archive.writestr(name, content)
    copy_data(path, tmp_path / "copy.pt2", path)
    with zipfile.ZipFile(tmp_path / "copy.pt2") as copied:
        assert copied.namelist() == ["version", "serialized_exported_program.json"]
