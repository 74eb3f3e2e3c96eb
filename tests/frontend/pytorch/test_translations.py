"""Each operator of quantisation, translated to ONNX, gives what PyTorch gives: integers within one step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import pytest

pytestmark = [pytest.mark.torch, pytest.mark.long]


@pytest.mark.filterwarnings("ignore")
def test_every_operator_is_what_pytorch_has(tmp_path: Path) -> None:
    import torch

    from edgetune.frontend.pytorch.child import OPSET
    from edgetune.frontend.pytorch.translations import table
    from tests.torch_samples import Quantisations

    module = Quantisations()
    torch.manual_seed(5)
    x = torch.randn(6, 32)
    program = torch.export.export(module, (x,))
    used = {str(node.target) for node in program.graph.nodes}
    unused = {str(target) for target in table()} - used
    assert unused <= {"aten._to_copy.default", *(name for name in unused if name.endswith("tensor2"))}
    exported = torch.onnx.export(
        program, opset_version=OPSET, dynamo=True, custom_translation_table=table(), verbose=False
    )
    exported.save(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    with torch.no_grad():
        expected = module(x)
    found = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x.numpy()})
    for (name, tensor), result in zip(expected.items(), found, strict=True):
        right = tensor.numpy()
        assert (result.dtype, result.shape) == (right.dtype, right.shape), name
        if right.dtype.kind in "iu" and name != "product":
            difference = np.abs(result.astype(np.int64) - right.astype(np.int64))
            assert difference.max() <= 1, name
            assert (difference == 0).mean() > 0.95, name
        else:
            step = {"from int8": 0.02, "from channels": 0.03, "from computed": 0.03}.get(name, 1e-4)
            assert np.abs(result - right).max() <= step * 1.001, name
    operators = [node.op_type for node in model.graph.node]
    assert operators.count("QuantizeLinear") == 5
    assert operators.count("DequantizeLinear") == 9
    kinds = {one.name: one.data_type for one in model.graph.initializer}
    assert onnx.TensorProto.INT4 in kinds.values()
