"""ARMv8-M Mainline with the DSP extension (Cortex-M33): no operating system, and no vectors of floats."""

from __future__ import annotations

from dataclasses import replace

from edgetune.target.isa.armv7em import ARMV7EM

ARMV8M = replace(ARMV7EM, name="armv8m")
