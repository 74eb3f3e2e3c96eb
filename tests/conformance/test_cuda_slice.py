"""A slice of the ONNX node tests in CUDA on the CPU, compiled together; all of them are `make cuda-conformance`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.conformance.cuda import judged_apart
from tests.conformance.cuda_worker import judge_together
from tests.conformance.report import gpu_section, gpu_section_of, support_text, with_gpu_section

SLICE = {
    "test_add_uint8": "passed",  # four threads write one word
    "test_argmax_no_keepdims_random": "passed",  # a reduction with two results
    "test_conv_with_strides_padding": "passed",
    "test_cumsum_1d": "passed",
    "test_gather_0": "passed",
    "test_linear_attention_delta": "passed",  # a vector load of a part of a tensor
    "test_reduce_log_sum_exp_empty_set": "constant",  # a reduction of no elements
    "test_sce_mean": "passed",  # a scalar result
    "test_softmax_axis_0": "passed",
    "test_tril_zero": "constant",  # an empty result
    "test_shape": "constant",
    "test_sequence_insert_at_back": "out of scope",
}


@pytest.mark.long
def test_nodes_in_cuda(tmp_path: Path) -> None:
    answers = io.StringIO()
    judge_together(list(SLICE), tmp_path, answers)
    lines = [json.loads(line) for line in answers.getvalue().splitlines()]
    found = {line["name"]: line for line in lines if "status" in line}
    assert {name: one["status"] for name, one in found.items()} == SLICE, found


def test_a_process_that_dies_costs_the_test_that_it_was_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    worker = tmp_path / "worker"
    worker.write_text(
        "import json, os, sys\n"
        "with open(sys.argv[1], 'w') as file:\n"
        "    for name in sys.argv[2:]:\n"
        "        file.write(json.dumps({'begun': name}) + '\\n')\n"
        "        file.flush()\n"
        "        if name == 'test_b': os.abort()\n"
        "        file.write(json.dumps({'name': name, 'status': 'passed', 'reason': ''}) + '\\n')\n"
    )
    monkeypatch.setattr("tests.conformance.cuda.WORKER", [str(worker)])
    results: list[dict[str, str]] = []
    judged_apart([["test_a", "test_b", "test_c"], ["test_d"]], 2, results.append)
    assert {one["name"]: one["status"] for one in results} == {
        "test_a": "passed",
        "test_b": "crashed",
        "test_c": "passed",
        "test_d": "passed",
    }


def test_support_has_the_count_and_what_passes_on_cpus_alone() -> None:
    on_cpus = [
        {"name": f"test_{name}", "status": status, "reason": ""} for name, status in (("a", "passed"), ("b", "wrong"))
    ]
    on_cpus.append({"name": "test_c", "status": "passed", "reason": ""})
    support = support_text(on_cpus)
    in_cuda = [{"name": f"test_{name}", "status": "passed", "reason": ""} for name in "ab"]
    in_cuda.append({"name": "test_c", "status": "not printed", "reason": "a | b"})
    section, missing = gpu_section(support, in_cuda, 6)
    assert missing == 1
    assert "2 of 3 pass; of those that\npass on CPUs, 1 of 2." in section
    assert section.endswith("\n- test_c: not printed: a / b\n")
    whole = with_gpu_section(support, section)
    assert with_gpu_section(whole, section) == whole
    assert with_gpu_section(support_text(on_cpus), gpu_section_of(whole)) == whole
