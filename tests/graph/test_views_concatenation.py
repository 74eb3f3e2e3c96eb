"""Concatenations without copies: the model means the same, in the emitted C as well, and needs no more memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.graph.partition import to_program
from edgetune.graph.program import Rows
from tests.examples import costly
from tests.network_sample import (
    HEIGHT,
    WIDTH,
    Network,
    assert_same,
    assert_same_in_c,
    copies,
    network,
    peak_first,
    unchanged,
)


def fire(channels: int = 8) -> tuple[Network, int]:
    """A squeezing convolution and two that expand, side by side, each with its activation, and a reader."""
    net = network()
    squeezed = net.relu(net.conv(0, 4))
    joined = net.concat(net.relu(net.conv(squeezed, channels)), net.relu(net.conv(squeezed, channels + 3, 3)))
    return net, net.conv(joined, 5)


@pytest.mark.long
@pytest.mark.parametrize("channels", [8, 16, 3])
def test_convolutions_write_their_part_of_the_result(channels: int, tmp_path: Path) -> None:
    net, last = fire(channels)
    assert copies(unchanged(net.model(last))) == 1
    program = assert_same(net.model(last))
    assert copies(program) == 0
    written = [call for call in program.calls if call.parts]
    assert [call.parts[len(call.arguments) - 1].offset for call in written] == [0, channels]
    assert len({call.arguments[-1] for call in written}) == 1
    pitch = 2 * channels + 3
    rows = [program.kernels[call.kernel].params[-1].rows for call in written]
    assert rows == [Rows(channels, pitch), Rows(channels + 3, pitch)]
    assert_same_in_c(net.model(last), tmp_path)


@pytest.mark.long
def test_an_activation_after_a_concatenation_is_fused_into_the_kernels_of_its_operands(tmp_path: Path) -> None:
    net = network()
    stem = net.conv(0, 8)
    pooled = net.add("AveragePool", [f"t{stem}"], 8, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    joined = net.relu(net.concat(pooled, net.conv(stem, 4)))
    program = assert_same(net.model(net.conv(joined, 3)))
    assert copies(program) == 0
    assert [kernel.sources[-1] for kernel in program.kernels if kernel.sources[0] == "avg_pool2d"] == ["relu"]
    assert_same_in_c(net.model(net.conv(joined, 3)), tmp_path)


@pytest.mark.long
def test_constants_after_a_concatenation_are_split_with_the_channels() -> None:
    net = network()
    joined = net.concat(net.conv(0, 4), net.conv(0, 6))
    scaled = net.add("Mul", [f"t{joined}", net.constant(1, 10, 1, 1)], 10)
    shifted = net.add("Add", [f"t{scaled}", net.constant(10, 1, 1)], 10)
    program = assert_same(net.model(net.conv(shifted, 3)))
    assert copies(program) == 0


@pytest.mark.long
def test_a_dense_block_lies_in_its_last_tensor_and_is_read_there(tmp_path: Path) -> None:
    net = network()
    joined = net.conv(0, 8)
    for _ in range(3):
        scaled = net.add("Mul", [f"t{joined}", net.constant(1, net.channels[joined], 1, 1)], net.channels[joined])
        joined = net.concat(joined, net.conv(net.relu(scaled), 4, 3))
    last = net.conv(joined, 4)
    assert copies(unchanged(net.model(last))) == 3
    program = assert_same(net.model(last))
    assert copies(program) == 0
    wholes = {call.arguments[number] for call in program.calls for number in call.parts}
    assert [program.buffers[whole].shape for whole in wholes] == [(1, HEIGHT, WIDTH, 20)]
    assert_same_in_c(net.model(last), tmp_path)


@pytest.mark.long
def test_only_operands_that_cannot_be_written_in_place_are_copied(tmp_path: Path) -> None:
    net = network()
    stem = peak_first(net)
    a, b, c = (net.relu(net.conv(stem, n)) for n in (4, 6, 9))
    first, second = net.concat(a, b), net.concat(c, a)
    last = net.conv(net.concat(net.conv(first, 3), net.conv(second, 3)), 3)
    program = assert_same(net.model(last))
    assert [program.kernels[c.kernel].sources for c in program.calls if "copy of operand" in c.label] == [("copy",)]
    assert program.copies_into_parts() == 1
    assert all("concatenate" not in kernel.sources for kernel in program.kernels)
    assert_same_in_c(net.model(last), tmp_path)


@pytest.mark.long
def test_concatenations_within_concatenations_copy_nothing(tmp_path: Path) -> None:
    net = network()
    stem = peak_first(net)
    made = [net.relu(net.conv(stem, channels)) for channels in (4, 6, 9)]
    model = net.model(net.conv(net.concat(net.concat(made[0], made[1]), made[2]), 3))
    program = assert_same(model)
    assert all("concatenate" not in kernel.sources for kernel in program.kernels)
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
def test_an_operand_that_only_moves_data_does_it_into_place(tmp_path: Path) -> None:
    net = network()
    stem = peak_first(net)
    made, flipped = (net.relu(net.conv(stem, 4)) for _ in range(2))
    flipped = net.add("Transpose", [f"t{flipped}"], 4, perm=[0, 1, 3, 2])
    flipped = net.add("Reshape", [f"t{flipped}", net.integers(1, 4, HEIGHT, WIDTH)], 4)
    model = net.model(net.conv(net.concat(made, net.relu(flipped)), 3))
    program = assert_same(model)
    assert all("concatenate" not in kernel.sources for kernel in program.kernels)
    assert_same_in_c(model, tmp_path)


def test_an_operand_that_is_there_twice_stays_copied() -> None:
    net = network()
    made = net.relu(net.conv(0, 4))
    program = assert_same(net.model(net.conv(net.concat(made, made), 3)))
    assert copies(program) == 1
    assert not any(call.parts for call in program.calls)


@pytest.mark.long
def test_a_model_output_is_written_in_parts_and_an_output_that_is_an_operand_stays_whole(tmp_path: Path) -> None:
    net = Network((1, 8, 1, 1))
    first, second = net.relu(net.conv(0, 4)), net.relu(net.conv(0, 6))
    joined = net.concat(first, second)
    program = assert_same(net.model(joined, first))
    assert [len(call.parts) for call in program.calls if program.kernels[call.kernel].macs] == [0, 1]
    assert program.buffers[program.calls[1].arguments[-1]].kind == "output"
    assert_same_in_c(net.model(joined, first), tmp_path)


@pytest.mark.long
def test_rows_one_below_the_other_need_no_gaps_and_no_kernels_of_their_own() -> None:
    net = network()
    made = [net.relu(net.conv(0, 8)) for _ in range(3)]
    joined = net.add("Concat", [f"t{m}" for m in made], 8, axis=2)
    program = assert_same(net.model(net.relu(net.conv(joined, 8))))
    assert copies(program) == 0
    expected = [{}, *({2: HEIGHT * WIDTH * 8 * n} for n in (1, 2))]
    parts = [{n: p.offset for n, p in call.parts.items() if p.offset} for call in program.calls[:3]]
    assert parts == expected
    assert program.calls[0].kernel == program.calls[1].kernel == program.calls[2].kernel
    assert program.kernels[program.calls[0].kernel].workload == unchanged(net.model(joined)).kernels[0].workload


@pytest.mark.long
def test_nested_rows_along_other_axes_are_written_in_place(tmp_path: Path) -> None:
    net = network()
    columns = [net.relu(net.conv(0, 4)) for _ in range(2)]
    wide = net.add("Concat", [f"t{c}" for c in columns], 4, axis=3)
    other = net.relu(net.conv(wide, 6))
    last = net.conv(net.concat(wide, other), 3)
    program = assert_same(net.model(last))
    assert copies(program) == 0
    assert_same_in_c(net.model(last), tmp_path)


@pytest.mark.long
def test_an_early_operand_of_a_late_concatenation_does_not_make_the_arena_larger() -> None:
    net = network(4)
    early = net.relu(net.conv(0, 4))
    wide = net.relu(net.conv(net.relu(net.conv(early, 60)), 60))
    late = net.concat(early, net.relu(net.conv(wide, 40)))
    assert_same(net.model(net.conv(late, 2)))


@pytest.mark.long
def test_a_residual_that_is_written_over_its_operand_is_not_forgotten() -> None:
    # The peak is at the residual only as long as that is thought to need two tensors.
    net = network(4)
    first = net.relu(net.conv(0, 32))
    second = net.conv(net.relu(net.conv(first, 32)), 32)
    added = net.relu(net.conv(net.add("Add", [f"t{first}", f"t{second}"], 32), 4))
    early, late = net.relu(net.conv(added, 6)), net.relu(net.conv(added, 28))
    for _ in range(3):
        late = net.relu(net.conv(late, 28, 3))
    assert_same(net.model(net.conv(net.concat(early, net.relu(net.conv(late, 26))), 2)))


def test_rows_that_a_copy_cannot_write_with_gaps_keep_their_concatenation() -> None:
    net = Network((2, 10))
    eight, one = net.add("MatMul", ["t0", net.constant(10, 8)], 8), net.add("MatMul", ["t0", net.constant(10, 1)], 1)
    other = net.add("MatMul", ["t0", net.constant(10, 8)], 8)
    folded = [net.add("Reshape", [f"t{n}", net.integers(2, 2, 4)], 2) for n in (eight, other)]
    inner = net.add("Concat", [f"t{folded[0]}", f"t{folded[0]}", f"t{folded[1]}"], 6, axis=1)
    flat = net.add("Reshape", [f"t{inner}", net.integers(2, 24)], 24)
    assert_same(net.model(net.concat(flat, one)))


@pytest.mark.long
def test_rows_that_a_copy_cannot_read_with_gaps_keep_their_concatenation() -> None:
    net = Network((2, 10))
    wide = peak = net.add("MatMul", ["t0", net.constant(10, 400)], 400)
    for _ in range(2):
        peak = net.add("MatMul", [f"t{net.relu(peak)}", net.constant(400, 400)], 400)
    wide = net.relu(net.add("MatMul", [f"t{peak}", net.constant(400, 12)], 12))
    two, one = net.add("MatMul", ["t0", net.constant(10, 6)], 6), net.add("MatMul", ["t0", net.constant(10, 1)], 1)
    folded = net.add("Reshape", [f"t{wide}", net.integers(2, 3, 4)], 3)
    beside = net.add("Reshape", [f"t{two}", net.integers(2, 3, 2)], 3)
    inner = net.add("Concat", [f"t{folded}", f"t{beside}"], 3, axis=2)
    assert_same(net.model(inner, net.concat(wide, one)))


@pytest.mark.long
@costly(15)
@given(data=st.data())
def test_any_matrices_side_by_side_and_folded_mean_the_same(data: st.DataObject) -> None:
    net = Network((2, 8))
    matrices = [0, *(net.add("MatMul", ["t0", net.constant(8, n)], n) for n in (8, 8, 4, 4, 12, 1))]
    made = []
    for _ in range(data.draw(st.integers(1, 4))):
        found = data.draw(st.lists(st.sampled_from(matrices), min_size=2, max_size=3))
        if data.draw(st.booleans()) and all(net.channels[n] % 4 == 0 for n in found):
            axis = data.draw(st.sampled_from([1, 2]))
            shapes = [(2, net.channels[n] // 4, 4) if axis == 1 else (2, 4, net.channels[n] // 4) for n in found]
            folded = [net.add("Reshape", [f"t{n}", net.integers(*s)], 0) for n, s in zip(found, shapes, strict=True)]
            total = sum(net.channels[n] for n in found)
            joined = net.add("Concat", [f"t{n}" for n in folded], 0, axis=axis)
            made.append(net.add("Reshape", [f"t{joined}", net.integers(2, total)], total))
        else:
            made.append(net.concat(*found))
        matrices.append(net.add("MatMul", [f"t{made[-1]}", net.constant(net.channels[made[-1]], 8)], 8))
        matrices.append(made[-1])
    assert_same(net.model(*sorted({made[-1], matrices[-2], *data.draw(st.lists(st.sampled_from(made), max_size=1))})))


def test_models_without_concatenations_are_the_very_same() -> None:
    net = network()
    model = net.model(net.conv(net.relu(net.conv(0, 4)), 3))
    program, plain = to_program(import_onnx(model)), unchanged(model)
    assert [kernel.workload for kernel in program.kernels] == [kernel.workload for kernel in plain.kernels]
    assert program.calls == plain.calls


@pytest.mark.long
@costly(12)
@given(st.data())
def test_any_network_of_concatenations_means_the_same(data: st.DataObject) -> None:
    net = network(data.draw(st.sampled_from([1, 3, 4])))
    for _ in range(data.draw(st.integers(2, 8))):
        tensors = st.integers(0, len(net.channels) - 1)
        match data.draw(st.sampled_from(["conv", "concat", "concat", "relu"])):
            case "conv":
                net.conv(data.draw(tensors), data.draw(st.sampled_from([1, 2, 4])), data.draw(st.sampled_from([1, 3])))
            case "relu":
                net.relu(data.draw(tensors))
            case _:
                net.concat(*data.draw(st.lists(tensors, min_size=2, max_size=3)))
    last = len(net.channels) - 1
    outputs = {last, *data.draw(st.lists(st.integers(1, last), max_size=2))}
    assert_same(net.model(*sorted(outputs)))
