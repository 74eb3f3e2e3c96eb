"""Modules of PyTorch, quantised and not, for tests with the mark `torch`, which import this file when they run."""

from __future__ import annotations

from typing import Any

import torch
import torchao.quantization as torchao
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

Tensors = tuple[torch.Tensor, ...]


class Images(nn.Module):
    """A convolution with a batch norm, a depthwise one, a mean and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, stride=2, groups=8)
        self.last = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.second(x))
        return self.last(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Layers(nn.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 128)
        self.second = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def image() -> Tensors:
    """An input of `Images`."""
    torch.manual_seed(1)
    return (torch.randn(1, 3, 16, 16),)


def rows() -> Tensors:
    """An input of `Layers`."""
    torch.manual_seed(1)
    return (torch.randn(4, 64),)


def pt2e(module: nn.Module, inputs: Tensors, **settings: bool) -> Any:
    """`module`, quantised by PT2E after two calibrations."""
    torch.manual_seed(2)
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(**settings))
    prepared = prepare_pt2e(torch.export.export(module.eval(), inputs).module(), quantizer)
    for _ in range(2):
        prepared(*(torch.randn_like(one) for one in inputs))
    return convert_pt2e(prepared)


def quantised_images() -> tuple[Any, Tensors]:
    """`Images`, quantised by PT2E, and an input."""
    torch.manual_seed(0)
    return pt2e(Images(), image()), image()


def weight_only_layers() -> tuple[Any, Tensors]:
    """`Layers` with int8 weights of torchao, and an input."""
    torch.manual_seed(0)
    module = Layers().eval()
    torchao.quantize_(module, torchao.Int8WeightOnlyConfig())
    return module, rows()


def transformer_block() -> tuple[Any, Tensors]:
    """A block of an encoder, in float, and an input."""
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), (torch.randn(1, 8, 32),)


class Quantisations(nn.Module):
    """Every operator of quantisation with a translation, each with a result of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        integers = torch.randint(-128, 128, (6, 32), dtype=torch.int8)
        self.register_buffer("integers", integers)
        self.register_buffer("nibbles", integers // 16)
        self.register_buffer("wide", torch.randint(-9999, 9999, (6, 32), dtype=torch.int32))
        self.register_buffer("scales", torch.rand(6) / 50 + 0.01)
        self.register_buffer("zeros", torch.randint(-9, 9, (6,)))
        self.register_buffer("blocks", torch.rand(6, 4) / 50 + 0.01)
        self.register_buffer("tiles", torch.rand(3, 2) / 50 + 0.01)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        of, torchao_of = torch.ops.quantized_decomposed, torch.ops.torchao
        full, narrow, unsigned = (-128, 127, torch.int8), (-100, 90, torch.int8), (0, 255, torch.uint8)
        scale, zero = of.choose_qparams.tensor(x, *unsigned[:2], 1e-5, torch.uint8)
        even, middle = of.choose_qparams_symmetric.tensor(x, *full[:2], 1e-5, torch.int8)
        small = of.quantize_per_tensor(x, 0.02, 3, *full)
        short = of.quantize_per_tensor(x, 0.001, 0, -32768, 32767, torch.int16)
        long = of.quantize_per_tensor(x, 0.0001, 5, -99999, 99999, torch.int32)
        of_rows = of.quantize_per_channel(x, self.scales, self.zeros, 0, *narrow)
        by_tensor = of.quantize_per_tensor.tensor(x, scale, zero, *unsigned)
        dynamic = torchao_of.dequantize_affine
        return {
            "int8": small,
            "narrow": of.quantize_per_tensor(x, 0.02, 3, *narrow),
            "int16": short,
            "int32": long,
            "from int8": of.dequantize_per_tensor(small, 0.02, 3, *full),
            "from int16": of.dequantize_per_tensor(short, 0.001, 0, -32768, 32767, torch.int16),
            "from int32": of.dequantize_per_tensor(long, 0.0001, 5, -99999, 99999, torch.int32),
            "per channel": of_rows,
            "from channels": of.dequantize_per_channel(of_rows, self.scales, self.zeros, 0, *narrow),
            "int32 channels": of.dequantize_per_channel(self.wide, self.scales, None, 0, -9999, 9999, torch.int32) + x,
            "scale": scale,
            "zero": zero,
            "even scale": even,
            "middle": middle,
            "computed": by_tensor,
            "from computed": of.dequantize_per_tensor.tensor(by_tensor, scale, zero, *unsigned),
            "groups": x + of.dequantize_per_channel_group(self.integers, self.blocks, None, *full, 8, torch.float32),
            "blocks of nibbles": x + dynamic(self.nibbles, [1, 8], self.blocks, None, torch.int8, -8, 7),
            "rows": x + dynamic(self.integers, [1, 32], self.scales, self.zeros.to(torch.int8), torch.int8, -128, 127),
            "whole": x + dynamic(self.integers, [6, 32], self.scales[:1], None, torch.int8, -128, 127),
            "tiles": x + dynamic(self.integers, [2, 16], self.tiles, None, torch.int8, -128, 127),
            "product": torch._int_mm(small, self.integers.t()),
            "widened": x + self.integers.to(torch.float32),
        }
