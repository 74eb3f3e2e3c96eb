"""Tensors in words: by the layer that writes them, with its number and a name that fits a sentence."""

from __future__ import annotations

from dataclasses import replace

from edgetune.graph.places_of_tensors import layer_in_words, tensor_in_words
from tests.graph.test_memory_plan import program_of


def test_a_tensor_is_called_by_its_layer_or_by_its_name_in_the_model() -> None:
    program = program_of([8, 16, 24], [[], [0], [1]])
    labels = ("relu;bias;conv (conv_relu)", "n" * 60 + " (dense)", "")
    calls = tuple(replace(call, label=label) for call, label in zip(program.calls, labels, strict=True))
    first, *others = program.buffers
    program = replace(program, calls=calls, buffers=(replace(first, name="x", kind="input"), *others))
    cut = f"layer 1 ({'n' * 45}...)"
    assert [layer_in_words(program, number) for number in range(3)] == ["layer 0 (relu)", cut, "layer 2"]
    made = ["input x 8", f"the output of {cut} 16", "the output of layer 2 24"]
    assert [tensor_in_words(program, number) for number in range(3)] == made
