"""What the oracle says of records of an older middle end."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from benchmarks.oracle.__main__ import main
from edgetune.pipeline.compile_input import program_for
from edgetune.pipeline.model_formats import read_model
from edgetune.records import RecordStore
from edgetune.target.target import load_target
from tests.search.test_migrate import OLDER, record


def test_records_give_the_same_c_or_other_c_or_no_schedule_or_are_orphaned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is counted once, under the kernel that it names."""
    path, database = tmp_path / "doubled.onnx", tmp_path / "db"
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "doubled", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    target = load_target("host")
    (kernel,) = program_for(read_model(path), target).kernels
    with RecordStore.open(database) as store:
        store.add(record(kernel, target, same=True))
        store.add(record(kernel, target, same=False))
        store.add(record(kernel, target, same=False, trace='["no trace"]'))
        store.add(record(kernel, target, same=False, workload="0" * 64, workload_name="gone"))
    assert main(["records", str(path), str(database)]) == 0
    *kernels, total = capsys.readouterr().out.splitlines()
    assert kernels == [
        f"  twice ({kernel.workload[:8]}): 1 the C that was timed, 1 other C, 1 no schedule",
        "  gone (00000000): 1 orphaned",
    ]
    assert total.startswith(f"doubled: 4 records of code generator {OLDER}, now ")
