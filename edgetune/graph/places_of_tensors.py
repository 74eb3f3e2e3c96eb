"""Where tensors are, in words: the layers that write and read them, by their numbers in a package's report."""

from __future__ import annotations

from edgetune.graph.loops import stage_of_each_call
from edgetune.graph.program import Program

_LONGEST = 48
"""Characters of a layer's name in a sentence: converters join the names of all operators that became one."""


def layer_in_words(program: Program, call: int) -> str:
    """The layer of a call by its number and the first of the names that its label joins: `layer 2 (conv2d_1/Relu)`."""
    name = program.calls[call].label.partition(";")[0].partition(" (")[0]
    short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
    number = stage_of_each_call(program)[call]
    return f"layer {number} ({short})" if short else f"layer {number}"


def tensor_in_words(program: Program, buffer: int) -> str:
    """A tensor by the layer that writes it first, or by its name in the model, with its shape."""
    tensor = program.buffers[buffer]
    shape = "x".join(map(str, tensor.shape))
    if tensor.kind != "intermediate":
        return f"{tensor.kind} {tensor.name} {shape}".rstrip()
    writers = (
        number
        for number, call in enumerate(program.calls)
        for place, param in enumerate(program.kernels[call.kernel].params)
        if param.role == "output" and call.arguments[place] == buffer
    )
    writer = next(writers, None)
    made = tensor.name if writer is None else f"the output of {layer_in_words(program, writer)}"
    return f"{made} {shape}".rstrip()
