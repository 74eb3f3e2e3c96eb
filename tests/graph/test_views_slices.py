"""Slices without copies: readers find them in place, and what is new is written over the rest of what was split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.frontend.onnx.sample_inputs import sample_inputs
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program, Rows
from tests.examples import costly
from tests.network_sample import (
    HEIGHT,
    WIDTH,
    Network,
    assert_same,
    assert_same_in_c,
    network,
    peak_first,
)

_COPYING = {"strided_slice", "copy", "concatenate"}


def split(net: Network, source: int, *channels: int) -> tuple[int, ...]:
    """The numbers of the results of a split along channels."""
    first = len(net.channels)
    results = [f"t{first + number}" for number in range(len(channels))]
    net.add("Split", [f"t{source}", net.integers(*channels)], channels[0], axis=1)
    del net.nodes[-1].output[:]
    net.nodes[-1].output.extend(results)
    net.channels.extend(channels[1:])
    return tuple(range(first, first + len(channels)))


def cut(net: Network, source: int, channels: int, **ranges: tuple[int, int]) -> int:
    """A slice of step 1 along the axes c, h and w."""
    axes = ["nchw".index(axis) for axis in ranges]
    begins, ends = (net.integers(*(bounds[side] for bounds in ranges.values())) for side in (0, 1))
    return net.add("Slice", [f"t{source}", begins, ends, net.integers(*axes)], channels)


def shuffle(net: Network, source: int) -> int:
    """Channels of two halves by turns."""
    channels = net.channels[source]
    halves = net.add("Reshape", [f"t{source}", net.integers(1, 2, channels // 2, HEIGHT, WIDTH)], channels)
    turned = net.add("Transpose", [f"t{halves}"], channels, perm=[0, 2, 1, 3, 4])
    return net.add("Reshape", [f"t{turned}", net.integers(1, channels, HEIGHT, WIDTH)], channels)


def calls_of(program: Program, sources: set[str]) -> list[str]:
    """Names of the kernels, call by call, that do one of these."""
    kernels = [program.kernels[call.kernel] for call in program.calls]
    return [kernel.name for kernel in kernels if sources & set(kernel.sources)]


@pytest.mark.long
def test_layers_read_their_half_of_a_split_in_place(tmp_path: Path) -> None:
    net = network()
    first, second = split(net, net.relu(net.conv(peak_first(net), 24)), 16, 8)
    model = net.model(net.conv(first, 3), net.conv(second, 4, 3))
    program = assert_same(model)
    assert calls_of(program, _COPYING) == []
    read = [call for call in program.calls if call.parts]
    assert [call.parts[0].offset for call in read] == [0, 16]
    assert [program.kernels[call.kernel].params[0].rows for call in read] == [Rows(16, 24), Rows(8, 24)]
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
def test_a_half_that_comes_back_is_written_over_the_one_it_was_computed_from(tmp_path: Path) -> None:
    net = network()
    stem = net.relu(net.conv(0, 16))
    kept, rest = split(net, stem, 8, 8)
    back = net.relu(net.conv(net.relu(net.conv(rest, 8)), 8, 3))
    model = net.model(net.conv(net.concat(kept, back), 4))
    program = assert_same(model)
    assert calls_of(program, _COPYING) == []
    writer = program.calls[2]
    assert writer.parts[len(writer.arguments) - 1].offset == 8
    assert writer.arguments[-1] == program.calls[0].arguments[-1]
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("late", ["rest", "whole", "other half"])
def test_a_tensor_that_is_still_read_is_not_overwritten(late: str, tmp_path: Path) -> None:
    net = network()
    stem = peak_first(net)
    kept, rest = split(net, stem, 4, 4)
    back = net.relu(net.conv(net.relu(net.conv(rest, 4)), 4, 3))
    joined = net.relu(net.conv(net.concat(kept, back), 3))
    match late:
        case "rest":
            later = net.conv(rest, 2)
        case "whole":
            later = net.conv(stem, 2)
        case _:
            later = net.conv(net.concat(net.relu(net.conv(kept, 4)), rest), 2)
    model = net.model(joined, later)
    assert_same(model)
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
def test_a_tensor_that_layers_of_an_inner_concatenation_read_is_not_overwritten(tmp_path: Path) -> None:
    net = network()
    first, second = split(net, net.relu(net.conv(peak_first(net), 8)), 4, 4)
    inner = net.concat(net.relu(net.conv(first, 2)), net.relu(net.conv(second, 2)))
    model = net.model(net.conv(net.concat(first, inner), 3))
    assert_same(model)
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("order", ["exchanged", "all exchanged"])
def test_a_slice_that_goes_to_another_place_is_not_overwritten(order: str, tmp_path: Path) -> None:
    net = network()
    pieces = split(net, net.relu(net.conv(peak_first(net), 16)), 4, 4, 4, 4)
    back = net.relu(net.conv(net.relu(net.conv(net.concat(*pieces[1:]), 4)), 4))
    for piece in pieces:
        net.conv(piece, 1)
    joined = (
        net.concat(pieces[0], back, pieces[1], pieces[2])
        if order == "exchanged"
        else net.concat(pieces[0], pieces[2], pieces[1], back)
    )
    readers = range(joined - len(pieces), joined)
    model = net.model(net.conv(joined, 3), *readers)
    assert_same(model)
    assert_same_in_c(model, tmp_path)


def matrices(rows: int, columns: int) -> Network:
    return Network((1, rows, columns))


def product(net: Network, source: int, columns: int, result: int) -> int:
    """relu(source @ weights); `Network.channels` has the columns of a matrix."""
    return net.relu(net.add("MatMul", [f"t{source}", net.constant(columns, result)], result))


@pytest.mark.long
def test_a_slice_that_is_a_model_output_is_written(tmp_path: Path) -> None:
    net = matrices(6, 8)
    stem = product(net, product(net, 0, 8, 60), 60, 8)
    kept, rest = split(net, stem, 4, 4)
    net.nodes[-1].attribute[0].i = 2
    joined = net.add("Concat", [f"t{kept}", f"t{product(net, product(net, rest, 4, 4), 4, 4)}"], 8, axis=2)
    model = net.model(kept, product(net, joined, 8, 3))
    assert_same(model)
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
def test_the_same_loops_over_other_gaps_are_another_kernel(tmp_path: Path) -> None:
    net = matrices(6, 8)
    stem = product(net, product(net, 0, 8, 60), 60, 8)
    pieces = split(net, stem, 2, 2, 4)
    net.nodes[-1].attribute[0].i = 2
    one = [net.integers(0), net.integers(1), net.integers(2)]
    thin = [net.add("Slice", [f"t{whole}", *one], 1) for whole in (stem, pieces[1])]
    weights = net.constant(1, 3)
    made = [net.add("MatMul", [f"t{piece}", weights], 3) for piece in thin]
    model = net.model(*made, *(product(net, piece, net.channels[piece], 3) for piece in pieces))
    program = to_program(import_onnx(model))
    feed = sample_inputs(model, program.inputs, 1, seed=5)[0]
    expected = evaluate_model(model, [feed])[0]
    for name, value in evaluate_program(program, [feed])[0].items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)
    assert_same_in_c(model, tmp_path)


@pytest.mark.parametrize("operators", ["shuffled", "cut"])
def test_a_concatenation_absorbs_operators_where_fusion_merges_it_with_its_reader(operators: str) -> None:
    net = network()
    made = net.conv(0, 32)
    moved = net.relu(shuffle(net, made) if operators == "shuffled" else cut(net, 0, 4, c=(0, 4)))
    program = assert_same(net.model(net.concat(made, moved)))
    assert any({"concatenate", "transpose"} <= set(kernel.sources) for kernel in program.kernels)


@pytest.mark.long
def test_all_slices_concatenated_in_order_are_the_sliced_tensor(tmp_path: Path) -> None:
    net = network()
    first, second = split(net, net.relu(net.conv(0, 16)), 8, 8)
    third = net.relu(net.conv(second, 8, 3))
    fourth = net.relu(net.conv(third, 8, 3))
    model = net.model(net.conv(net.concat(first, second, third, fourth), 4))
    program = assert_same(model)
    assert calls_of(program, _COPYING) == []
    wholes = {call.arguments[number] for call in program.calls for number in call.parts}
    assert [program.buffers[whole].shape for whole in wholes] == [(1, HEIGHT, WIDTH, 32)]
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
def test_a_concatenation_of_all_results_of_a_split_vanishes() -> None:
    net = network()
    pieces = split(net, net.relu(net.conv(0, 12)), 4, 4, 4)
    program = assert_same(net.model(net.relu(net.conv(net.concat(*pieces), 4))))
    assert len(program.calls) == 3  # the last transposes to the model's order
    net = network()
    a, b, c = split(net, net.relu(net.conv(0, 12)), 4, 4, 4)
    assert_same(net.model(net.conv(net.concat(b, a, c), 4)))


@pytest.mark.long
def test_part_of_a_picture_is_read_where_it_lies(tmp_path: Path) -> None:
    net = network()
    made = net.relu(net.conv(0, 8))
    window = cut(net, made, 8, h=(1, 4), w=(2, 6))
    rows = cut(net, made, 8, h=(1, 4))
    model = net.model(net.conv(window, 3, 3), net.conv(rows, 3))
    program = assert_same(model)
    assert [call.parts[0].offset for call in program.calls if 0 in call.parts] == [(WIDTH + 2) * 8, WIDTH * 8]
    assert "strided_slice" not in {source for kernel in program.kernels for source in kernel.sources}
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
def test_a_slice_along_two_axes_is_read_in_place(tmp_path: Path) -> None:
    net = network()
    some = cut(net, net.relu(net.conv(0, 8)), 4, c=(1, 5), w=(2, 6))
    model = net.model(net.conv(some, 3))
    program = assert_same(model)
    assert not any("strided_slice" in kernel.sources for kernel in program.kernels)
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
def test_every_other_channel_is_copied() -> None:
    net = network()
    made = net.relu(net.conv(0, 8))
    operands = [f"t{made}", net.integers(0), net.integers(8), net.integers(1), net.integers(2)]
    program = assert_same(net.model(net.conv(net.add("Slice", operands, 4), 3)))
    assert any("strided_slice" in kernel.sources for kernel in program.kernels)


@pytest.mark.long
def test_a_slice_that_begins_at_the_start_does_not_make_its_kernel_compute_the_whole() -> None:
    net = network()
    program = assert_same(net.model(net.conv(cut(net, net.conv(0, 8), 8, h=(0, 2)), 3)))
    assert all("strided_slice" not in kernel.sources for kernel in program.kernels if kernel.macs)


def test_an_input_is_read_in_parts(tmp_path: Path) -> None:
    net = Network((1, 6, 10))
    first = net.add("Slice", ["t0", net.integers(2), net.integers(7), net.integers(2)], 6)
    made = net.add("MatMul", [f"t{first}", net.constant(5, 4)], 6)
    program = assert_same(net.model(made))
    assert [dict(call.parts)[0].offset for call in program.calls] == [2]
    assert_same_in_c(net.model(made), tmp_path)


@pytest.mark.long
def test_one_position_of_a_sequence_is_read_in_place(tmp_path: Path) -> None:
    net = Network((1, 6, 8))
    made = net.relu(net.add("MatMul", ["t0", net.constant(8, 12)], 6))
    picked = net.add("Gather", [f"t{made}", net.integers(-2)], 1, axis=1)
    net.constants[f"c{len(net.constants) - 1}"] = net.constants[f"c{len(net.constants) - 1}"].reshape(())
    model = net.model(net.add("MatMul", [f"t{picked}", net.constant(12, 3)], 3))
    program = assert_same(model)
    assert calls_of(program, _COPYING) == []
    assert [call.parts[0].offset for call in program.calls if call.parts] == [4 * 12]
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
def test_shuffled_halves_stay_channels_last_with_one_transpose_a_unit(tmp_path: Path) -> None:
    net = network(16)
    joined = net.relu(net.conv(0, 16))
    for _ in range(3):
        kept, rest = split(net, joined, 8, 8)
        joined = shuffle(net, net.concat(kept, net.relu(net.conv(net.conv(rest, 8, 3), 8))))
    model = net.model(net.conv(joined, 4))
    program = assert_same(model)
    assert calls_of(program, _COPYING) == []
    assert len(calls_of(program, {"transpose"})) == 5  # one is of the input's 16 channels, one of the output
    assert_same_in_c(model, tmp_path)


@pytest.mark.long
@costly(8)
@given(st.data())
def test_any_network_of_slices_and_concatenations_means_the_same(data: st.DataObject) -> None:
    net = network(data.draw(st.sampled_from([2, 4, 8])))
    stem = peak_first(net) if data.draw(st.booleans()) else 0  # later tensors are smaller, so some may live longer
    steps = ["conv", "relu", "split", "split", "concat", "concat", "join", "join", "shuffle", "cut", "add"]
    whole = [stem]  # tensors of the full height and width
    for _ in range(data.draw(st.integers(3, 9))):
        source = data.draw(st.sampled_from(whole))
        channels = net.channels[source]
        match data.draw(st.sampled_from(steps)):
            case "conv":
                window = data.draw(st.sampled_from([1, 3]))
                whole.append(net.conv(source, data.draw(st.sampled_from([2, 4, channels])), window))
            case "relu":
                whole.append(net.relu(source))
            case "split" if channels > 1:
                first = data.draw(st.integers(1, channels - 1))
                rest = channels - first
                second = data.draw(st.integers(1, rest))
                whole.extend(split(net, source, *(n for n in (first, second, rest - second) if n)))
            case "join" if channels > 1:
                first = data.draw(st.integers(1, channels - 1))
                pieces = list(split(net, source, first, channels - first))
                number = data.draw(st.integers(0, 1))
                pieces[number] = net.relu(
                    net.conv(net.relu(net.conv(pieces[1 - number], 4)), net.channels[pieces[number]])
                )
                whole.extend([*pieces, net.concat(*pieces)])
            case "shuffle" if channels % 2 == 0:
                whole.append(shuffle(net, source))
            case "cut":
                begin = data.draw(st.integers(0, HEIGHT - 2))
                part = cut(net, source, channels, h=(begin, HEIGHT), w=(data.draw(st.integers(0, 2)), WIDTH))
                pooled = net.add("GlobalAveragePool", [f"t{net.conv(part, 2)}"], 2)
                like = net.conv(source, 2)
                whole.append(net.add("Add", [f"t{like}", f"t{pooled}"], 2))
            case "add":
                alike = [tensor for tensor in whole if net.channels[tensor] == channels]
                other = data.draw(st.sampled_from(alike))
                whole.append(net.add("Add", [f"t{source}", f"t{other}"], channels))
            case _:
                operands = data.draw(st.lists(st.sampled_from(whole), min_size=2, max_size=3))
                whole.append(net.concat(*operands))
    last = whole[-1] or net.relu(0)
    outputs = {
        last,
        *data.draw(st.lists(st.sampled_from([tensor for tensor in whole if tensor] or [last]), max_size=2)),
    }
    assert_same(net.model(*sorted(outputs)))
