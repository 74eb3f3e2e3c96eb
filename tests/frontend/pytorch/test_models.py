"""Modules from `edgetune.load` to a package whose outputs are within one step of PyTorch's own."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgetune
from edgetune.errors import ModelError, UnsupportedOperator
from edgetune.frontend.model_format import ModelInPython, Recognition
from edgetune.frontend.pytorch import child
from edgetune.frontend.pytorch.format import FORMAT, LoadedPyTorch

pytestmark = [pytest.mark.torch, pytest.mark.long, pytest.mark.filterwarnings("ignore")]


def exported(module: Any, inputs: Any) -> Any:
    import torch

    return torch.export.export(module, inputs)


def operators(loaded: Any) -> Counter[str]:
    return Counter(node.op_type for node in loaded.stored.onnx.content.proto.graph.node)


@pytest.mark.parametrize(
    ("sample", "kept"),
    [
        ("quantised_images", {"QuantizeLinear": 3, "DequantizeLinear": 6}),
        ("weight_only_layers", {"DequantizeLinear": 2}),
    ],
)
def test_a_quantised_module_becomes_a_package_that_computes_what_pytorch_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: str, kept: dict[str, int]
) -> None:
    """The package's own test compares it with what PyTorch computed, which is compared here with the module itself."""
    import torch

    from tests import torch_samples

    compared: list[tuple[Any, Any]] = []
    original = LoadedPyTorch.reference_outputs

    def noted(self: Any, feeds: Any, *others: Any) -> Any:
        outputs, reference = original(self, feeds, *others)
        compared.extend(zip(feeds, outputs, strict=True))
        return outputs, reference

    monkeypatch.setattr(LoadedPyTorch, "reference_outputs", noted)
    module, inputs = getattr(torch_samples, sample)()
    loaded = edgetune.load(module, inputs, name=sample)
    found = operators(loaded)
    assert {name: found[name] for name in kept} == kept
    built = loaded.build(out=tmp_path / "package", db=tmp_path / "records.db")
    assert (built.reference, built.not_tested) == (f"torch {torch.__version__}", "")
    assert len(compared) == 3
    for feed, outputs in compared:
        with torch.no_grad():
            expected = module(*map(torch.from_numpy, feed.values())).numpy()
        assert all(np.array_equal(one, expected) for one in outputs.values())
    manifest = json.loads((tmp_path / "package" / "MANIFEST.json").read_text())
    (allowed,) = (one["tolerance"] for one in manifest["outputs"])
    step = json.dumps(allowed)
    if sample == "weight_only_layers":  # computed in float, from weights of 8 bits
        report = loaded.verify(tmp_path / "package")
        assert (report.passed, report.reference, report.fresh_cases) == (True, built.reference, 2)
        assert all(output.max_rel < 1e-5 for output in report.outputs), step
    else:
        assert allowed["absolute"] <= 1.01 * allowed["step"], step


def test_a_file_becomes_a_package_in_a_process_without_pytorch(tmp_path: Path) -> None:
    import torch

    from tests.torch_samples import transformer_block

    path = tmp_path / "block.pt2"
    torch.export.save(exported(*transformer_block()), path)
    script = (
        "import sys, edgetune\n"
        f"loaded = edgetune.load({str(path)!r})\n"
        "print(loaded.name, loaded.build(board='host', out='package').not_tested)\n"
        "print('torch' in sys.modules, 'tvm' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["block ", "False True"]
    assert FORMAT.recognises(ModelInPython(torch.export.load(path))) is Recognition.CERTAIN


class Creates:
    """An object whose pickle creates a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def saved(path: Path) -> Path:
    import torch

    class Halves(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight / 2

    torch.export.save(torch.export.export(Halves(), (torch.ones(2, 3),)), path)
    return path


def changed(path: Path, **members: bytes | None) -> Path:
    """`path` with members of its archive written, or replaced."""
    with zipfile.ZipFile(path) as archive:
        folder = archive.namelist()[0].partition("/")[0]
        contents: dict[str, bytes] = {name: archive.read(name) for name in archive.namelist()}
    for name, content in members.items():
        contents[f"{folder}/{name}"] = content or b""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def test_a_file_may_have_open_sizes(tmp_path: Path) -> None:
    import torch

    axes = {2: torch.export.Dim("rows", min=4)}
    program = torch.export.export(torch.nn.Upsample(scale_factor=1.5), (torch.ones(1, 3, 8, 8),), dynamic_shapes=[axes])
    torch.export.save(program, tmp_path / "net.pt2")
    (shape,) = FORMAT.signature(tmp_path / "net.pt2").values()
    assert (shape[:2], shape[3:]) == ((1, 3), (8,))
    assert not isinstance(shape[2], int)


@pytest.mark.parametrize("member", ["data/sample_inputs/model.pt", "data/weights/model.pt"])
def test_a_pickle_that_would_create_a_file_creates_none(tmp_path: Path, member: str) -> None:
    import torch

    victim = tmp_path / "created"
    torch.save({"weight": Creates(victim)}, tmp_path / "hostile.pt")
    torch.load(tmp_path / "hostile.pt", weights_only=False)
    assert victim.is_dir()  # so the pickle does what it says
    victim.rmdir()
    path = changed(saved(tmp_path / "net.pt2"), **{member: (tmp_path / "hostile.pt").read_bytes()})
    with pytest.raises(ModelError) as refusal:
        edgetune.load(path)
    assert not victim.exists()
    sentence, *lines = str(refusal.value).splitlines()
    assert "objects of Python beside its tensors, and reading it may run code" in sentence
    assert f"torch.export.load({str(path)!r})" in lines[0]


def test_an_object_that_torch_would_unpickle_by_itself_is_not_read(tmp_path: Path) -> None:
    victim = tmp_path / "created"
    config = b'{"config": {"thing": {"path_name": "opaque_obj_0", "use_pickle": true, "is_param": false}}}'
    path = changed(
        saved(tmp_path / "net.pt2"),
        **{
            "data/constants/opaque_obj_0": pickle.dumps(Creates(victim)),
            "data/constants/model_constants_config.json": config,
        },
    )
    with pytest.raises(ModelError, match="an object of Python"):
        edgetune.load(path)
    assert not victim.exists()


def test_what_changes_itself_or_draws_is_refused() -> None:
    import torch

    from tests.torch_samples import Images, image

    with pytest.raises(ModelError, match=r"net changes norm.num_batches_tracked, .*call eval\(\)"):
        child.require_stateless(exported(Images(), image()), "net")
    child.require_stateless(exported(Images().eval(), image()), "net")
    block = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    with pytest.raises(ModelError, match=r"net draws random numbers \(aten.scaled_dot"):
        child.require_stateless(exported(block, (torch.randn(1, 4, 8),)), "net")
    child.require_stateless(exported(block.eval(), (torch.randn(1, 4, 8),)), "net")


def test_operators_without_a_translation_are_all_named() -> None:
    import torch

    class Rare(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvalsh(x @ x.T) + torch.special.bessel_j0(x).sum()

    program = exported(Rare(), (torch.randn(3, 3),))
    with pytest.raises(UnsupportedOperator, match=r"aten\._linalg_eigh.*, prims\.bessel_j0"):
        child.require_translated(program, {}, "net")


def test_an_operator_that_makes_files_is_no_operator(tmp_path: Path) -> None:
    import torch

    program = exported(torch.nn.ReLU(), (torch.randn(3),))
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.target, node.args = torch.ops.aten.from_file.default, (str(tmp_path / "created"), True, 5)
    with pytest.raises(UnsupportedOperator, match=r"net has operators without a translation to ONNX: aten.from_file"):
        child.require_known(program, {}, "net")


def test_a_module_needs_inputs_and_a_file_has_its_own(tmp_path: Path) -> None:
    import torch

    with pytest.raises(ModelError, match="give example_inputs"):
        edgetune.load(torch.nn.ReLU())
    with pytest.raises(ModelError, match=r"torch.export refuses the ReLU given in Python: "):
        edgetune.load(torch.nn.ReLU(), (torch.ones(2), torch.ones(2)))
    with pytest.raises(edgetune.errors.UsageError, match="example_inputs are given for a file"):
        edgetune.load(tmp_path / "net.pt2", (torch.ones(2),))
