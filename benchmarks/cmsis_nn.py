"""Counts the instructions of CMSIS-NN for the layers of a model in TensorFlow Lite, under the emulator of a board.

The sources are those of a checkout, compiled with the flags of the board. Counted are its functions for convolutions,
depthwise convolutions and products of matrices, each called once for each such layer, with the scratch memory that it
asks for; what else a model has (sums, pooling, softmax) is not. Written for the interface of CMSIS-NN 4.0.0.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.boards.image.emulation import emulate
from edgetune.boards.image.parts import build_regions_plugin, image_folder, layout_words
from edgetune.errors import CompileFailed, SelfTestFailed, UsageError
from edgetune.frontend.tflite.content import Operator, Tensor, TfliteContent
from edgetune.frontend.tflite.reader import read_content
from edgetune.target.newlib import NEWLIB
from edgetune.target.target import Target
from edgetune.target.tool_process import run_tool

_ROOMS = ("ConvolutionFunctions", "FullyConnectedFunctions", "NNSupportFunctions")
_SECONDS = 300.0
_STACK_BYTES = 16 * 1024
_SCRATCH_BYTES = 128 * 1024
_SAME = 0  # the number of this padding in the schema
_PROGRAM = """\
#include "arm_nnfunctions.h"

void report(const uint32_t *words, unsigned count); /* of start.c, which calls run() */
extern const uint32_t image_identity;
const uint32_t image_identity = 0; /* begins what it prints */
void run(void);

static int8_t input[@input@], filter[@filter@], output[@output@];
static int32_t bias[@channels@], multiplier[@channels@], shift[@channels@];
static uint64_t scratch[@scratch@ / 8];

/* Marks of the plugin that counts what is executed between them. */
#define BEGIN() __asm__ volatile(".inst.n 0x46c9" ::: "memory")
#define END() __asm__ volatile(".inst.n 0x46d2" ::: "memory")

void run(void)
{
    const cmsis_nn_per_channel_quant_params channels = {multiplier, shift};
    const cmsis_nn_per_tensor_quant_params tensor = {1 << 30, -7};
    uint32_t failed = 0;

    (void)channels, (void)tensor;
    for (int i = 0; i < @channels@; i++)
        multiplier[i] = 1 << 30, shift[i] = -7;
@layers@
    report(&failed, 1);
}
"""
_LAYER = """\
    {
        const cmsis_nn_dims in = {@in@}, of_filter = {@of_filter@}, of_bias = {1, 1, 1, @out_channels@}, out = {@out@};
        const @type@ params = {@params@};
        const cmsis_nn_context context = {scratch, @size@};

        failed |= context.size > (int32_t)sizeof scratch;
        BEGIN();
        failed |= @function@(&context, &params, &@scales@, &in, input, &of_filter, filter, &of_bias, bias, &out,
                             output) != ARM_CMSIS_NN_SUCCESS;
        END();
    }
"""


@dataclass(frozen=True)
class _Function:
    """How a function of CMSIS-NN is called: the type of its parameters, and what says how much scratch it needs."""

    name: str
    parameters: str
    scales: str
    size: str


_CONVOLUTION = _Function(
    "arm_convolve_wrapper_s8",
    "cmsis_nn_conv_params",
    "channels",
    "arm_convolve_wrapper_s8_get_buffer_size(&params, &in, &of_filter, &out)",
)
_DEPTHWISE = _Function(
    "arm_depthwise_conv_wrapper_s8",
    "cmsis_nn_dw_conv_params",
    "channels",
    "arm_depthwise_conv_wrapper_s8_get_buffer_size(&params, &in, &of_filter, &out)",
)
_PRODUCT = _Function(
    "arm_fully_connected_s8", "cmsis_nn_fc_params", "tensor", "arm_fully_connected_s8_get_buffer_size(&of_filter)"
)
_FUNCTIONS = {"CONV_2D": _CONVOLUTION, "DEPTHWISE_CONV_2D": _DEPTHWISE, "FULLY_CONNECTED": _PRODUCT}


def instructions(model: Path, target: Target, checkout: Path) -> int:
    """The instructions that the functions of CMSIS-NN in `checkout` take for the layers of `model`, all together.

    Raises UsageError where `checkout` is none, CompileFailed, and SelfTestFailed where a function refuses a layer.
    """
    with tempfile.TemporaryDirectory(prefix="edgetune-cmsis-") as name:
        folder = Path(name)
        text, layers = program(read_content(model))
        (folder / "layers.c").write_text(text, encoding="ascii")
        image = _linked(folder, target, checkout)
        plugin = build_regions_plugin()
        done = emulate(target.name, target.emulator, plugin, image, (), _SECONDS, lambda _: None)
    if done.late or done.last_words != "edgetune: 00000000" or len(done.counts) != layers:
        raise SelfTestFailed(f"CMSIS-NN does not run the layers of {model} on board '{target.name}': {done.last_words}")
    return sum(counts[0] for counts in done.counts)


def program(content: TfliteContent) -> tuple[str, int]:
    """The program that calls a function for each layer of a model that CMSIS-NN has one for, and their number."""
    layers = [operator for operator in content.operators if operator.name in _FUNCTIONS]
    tensors = [[content.tensors[each] for each in (*one.inputs[:2], one.outputs[0])] for one in layers]
    sizes = [max(_elements(of_layer[place]) for of_layer in tensors) for place in range(3)]
    values = {
        **dict(zip(("input", "filter", "output"), map(str, sizes), strict=True)),
        "channels": str(max(of_layer[2].shape[-1] for of_layer in tensors)),
        "scratch": str(_SCRATCH_BYTES),
        "layers": "".join(_layer(*pair) for pair in zip(layers, tensors, strict=True)),
    }
    return _filled(_PROGRAM, values), len(layers)


def _layer(operator: Operator, tensors: Sequence[Tensor]) -> str:
    data, filters, result = tensors
    function, options = _FUNCTIONS[operator.name], operator.options
    offsets = [-_zero_point(data), _zero_point(result)]
    extents = {"in": list(data.shape), "of_filter": list(filters.shape), "out": list(result.shape)}
    if function is _PRODUCT:
        rows, terms = filters.shape
        params: list[object] = [offsets[0], 0, offsets[1], "{-128, 127}"]
        extents = {"in": [1, 1, 1, terms], "of_filter": [terms, 1, 1, rows], "out": [1, 1, 1, rows]}
    else:
        multiple = [options["DepthMultiplier"]] if function is _DEPTHWISE else []
        params = [*offsets, *multiple, *_tiles(options, data, filters, result), "{-128, 127}"]
    return _filled(
        _LAYER,
        {
            **{name: _list(extent) for name, extent in extents.items()},
            "out_channels": str(result.shape[-1]),
            "type": function.parameters,
            "params": _list(params),
            "size": function.size,
            "function": function.name,
            "scales": function.scales,
        },
    )


def _tiles(options: Mapping[str, Any], data: Tensor, filters: Tensor, result: Tensor) -> list[str]:
    """Stride, padding and dilation, each of width and height."""
    strides = [options["StrideW"], options["StrideH"]]
    dilations = [options["DilationWFactor"], options["DilationHFactor"]]
    padding = []
    for axis, stride, dilation in zip((2, 1), strides, dilations, strict=True):
        reach = (result.shape[axis] - 1) * stride + (filters.shape[axis] - 1) * dilation + 1
        padding.append(max(reach - data.shape[axis], 0) // 2 if options["Padding"] == _SAME else 0)
    return [f"{{{_list(tile)}}}" for tile in (strides, padding, dilations)]


def _zero_point(tensor: Tensor) -> int:
    if tensor.type != "INT8" or tensor.quantisation is None:
        raise UsageError(f"CMSIS-NN is counted for models of int8, and tensor {tensor.name} is {tensor.type}")
    return int(tensor.quantisation.zero_point.reshape(-1)[0])


def _elements(tensor: Tensor) -> int:
    size = 1
    for extent in tensor.shape:
        size *= extent
    return size


def _list(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


def _filled(text: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def _linked(folder: Path, target: Target, checkout: Path) -> Path:
    """The image of the program in `folder`."""
    sources = [path for room in _ROOMS for path in sorted(checkout.rglob(f"{room}/*.c"))]
    if not sources:
        raise UsageError(f"{checkout} has no sources of CMSIS-NN (ConvolutionFunctions/*.c): name a checkout of it")
    space = target.memory_map
    if space is None:
        raise UsageError(f"board '{target.name}' has an operating system: name boards with 'reach: image'")
    image = folder / "image.elf"
    command = [
        target.compiler.cc,
        *target.compiler.cflags,
        "-w",
        "-ffunction-sections",
        *(f"-I{path}" for path in sorted(checkout.rglob("Include")) if path.is_dir()),
        *NEWLIB,
        "-Wl,--gc-sections,--no-warn-rwx-segments,--build-id=none",
        *layout_words(space, _STACK_BYTES),
        str(image_folder() / "start.c"),
        str(folder / "layers.c"),
        *map(str, sources),
        "-o",
        str(image),
        *target.compiler.ldflags,
    ]
    done = run_tool(command, timeout_s=_SECONDS, folder=folder)
    if done.returncode:
        raise CompileFailed(f"{target.compiler.cc} cannot compile CMSIS-NN in {checkout}: {done.stderr.strip()[:500]}")
    return image
