"""What PyTorch writes is recognised by its bytes, whatever its name, and refused with the lines that export it."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest

from edgetune.errors import ModelError
from edgetune.frontend.model_format import Recognition
from edgetune.frontend.pytorch.format import FORMAT
from edgetune.frontend.pytorch.sources import TORCH_FILES
from edgetune.pipeline.model_formats import format_of, require_model


def archive(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name in names:
            file.writestr(name, "content")
    return stream.getvalue()


def safetensors(long: bool = False) -> bytes:
    tensors = {
        f"layer_{n}.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in range(1 + 99 * long)
    }
    header = json.dumps(tensors).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


def checkpoint() -> bytes:
    """As torch.save wrote files before they were archives: magic number, version, sizes, then the object."""
    parts = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, {"w": [1.0]})
    return b"".join(pickle.dumps(part, 2) for part in parts)


SCRIPT = archive("m/data.pkl", "m/constants.pkl", "m/code/__torch__.py")
REFUSED: dict[str, tuple[bytes, str, str]] = {
    "torchscript": (SCRIPT, "TorchScript", "torch.jit.load('{path}').eval()"),
    "checkpoint": (archive("m/data.pkl", "m/data/0", "m/version"), "checkpoint", "torch.load('{path}')"),
    "old checkpoint": (checkpoint(), "checkpoint", "torch.load('{path}')"),
    "safetensors": (safetensors(), "safetensors", "load_model(model, '{path}')"),
    "safetensors with a long header": (safetensors(long=True), "safetensors", "load_model(model, '{path}')"),
}
PROGRAMS = {
    "pt2": archive("m/archive_format", "m/models/model.json"),
    "pt2 of the first versions": archive("serialized_exported_program.json", "version"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_program_is_refused_with_three_lines(tmp_path: Path, name: str) -> None:
    content, words, line = REFUSED[name]
    path = tmp_path / "network.onnx"  # its name is of no help
    path.write_bytes(content)
    assert format_of(path) is FORMAT
    with pytest.raises(ModelError) as refusal:
        require_model(path, "flag MODEL")
    sentence, *lines = str(refusal.value).splitlines()
    assert sentence.startswith(f"{path} is a")
    assert words in sentence
    assert sentence.endswith("(flag MODEL)")
    assert len(lines) == 3
    assert line.replace("{path}", str(path)) in "\n".join(lines)
    assert "network." in lines[-1]
    compile("\n".join(one.strip() for one in lines), "lines", "exec")


def test_a_path_is_written_as_python_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "it's {mine}.pt"
    path.write_bytes(checkpoint())
    with pytest.raises(ModelError) as refusal:
        require_model(path, "")
    lines = str(refusal.value).splitlines()[1:]
    compile("\n".join(one.strip() for one in lines), "lines", "exec")
    assert f"torch.load({str(path)!r})" in lines[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_this_format_s_own(tmp_path: Path, name: str) -> None:
    path = tmp_path / "network"
    path.write_bytes(PROGRAMS[name])
    assert FORMAT.recognises(path) is Recognition.CERTAIN


def test_every_kind_of_file_has_a_case(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"")
    said = [words for _, words, _ in REFUSED.values()]
    assert all(any(word in kind.name for word in said) for kind in TORCH_FILES if kind.lines)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"PK\x03\x04 cut short", id="broken archive"),
        pytest.param(PROGRAMS["pt2"].replace(b"PK\x01\x02\x14\x03\x14", b"PK\x01\x02\x14\x03\xfa"), id="new archive"),
        pytest.param(b"\xff" * 5000, id="noise"),
        pytest.param((8).to_bytes(8, "little") + b"{broken}", id="nearly safetensors"),
        pytest.param(pickle.dumps({"a": [1.5]}), id="a pickle of something else"),
        pytest.param(b"", id="empty"),
    ],
)
def test_what_is_not_of_pytorch_is_left_to_others(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.pt").write_bytes(content)
    for path in (tmp_path / "m.pt", tmp_path / "gone.pt2", tmp_path):
        assert FORMAT.recognises(path) is Recognition.NONE
