"""MLPerf Tiny's int8 models on Cortex-M: instructions of a run and RAM that packages are to need, and CMSIS-NN's.

Those of CMSIS-NN were measured earlier, under QEMU as well, compiled by GCC.
"""

from __future__ import annotations

from collections.abc import Mapping

MILLION = 1_000_000
MODELS = ("kws_int8", "resnet8_int8", "vww_int8", "ad_int8", "sww_int8", "resnet_large_int8")
_OTHER_CORES = 1.1  # Cortex-M7 and Cortex-M33 have the bars of a Cortex-M4 and 10 %

_M4 = dict(zip(MODELS, (4.2, 17.0, 7.0, 0.42, 1.3, 88.0), strict=True))
_M55 = dict(zip(MODELS, (0.9, 2.6, 2.2, 0.055, 0.25, 10.0), strict=True))
_NEAR_M4 = {model: _OTHER_CORES * bar for model, bar in _M4.items()}
_BARS: Mapping[str, Mapping[str, float]] = {
    "cortex-m4": _M4,
    "cortex-m7": _NEAR_M4,
    "cortex-m33": _NEAR_M4,
    "cortex-m55": _M55,
    "cortex-m0plus": {"kws_int8": 23.0},
}
_CMSIS_NN: Mapping[str, Mapping[str, float]] = {
    "cortex-m4": dict(zip(MODELS, (7.84, 29.9, 24.7, 0.579, 2.22, 146.0), strict=True)),
    "cortex-m55": dict(zip(MODELS, (1.78, 4.81, 6.42, 0.147, 0.408, 18.6), strict=True)),
    "cortex-m0plus": {"kws_int8": 29.0},
}


_RAM = dict(zip(MODELS, (19_000, 37_000, 61_000, 3_000, 9_000, 86_000), strict=True))


def ram_bar_of(model: str) -> int | None:
    """Bytes of RAM that a package of `model` may take, without the caller's tensors; None where there is no bar."""
    return _RAM.get(model)


def bar_of(model: str, cpu: str) -> float | None:
    """Instructions that a run of `model` may take on a core; None where there is no bar."""
    return _instructions(_BARS, model, cpu)


def cmsis_nn_of(model: str, cpu: str) -> float | None:
    """Instructions of a run by CMSIS-NN, measured earlier; None where there is no count."""
    return _instructions(_CMSIS_NN, model, cpu)


def _instructions(of_cores: Mapping[str, Mapping[str, float]], model: str, cpu: str) -> float | None:
    millions = of_cores.get(cpu, {}).get(model)
    return None if millions is None else millions * MILLION
