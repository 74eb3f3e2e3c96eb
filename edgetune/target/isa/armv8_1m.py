"""ARMv8.1-M Mainline (Cortex-M55): no operating system."""

from __future__ import annotations

from dataclasses import replace

from edgetune.target.isa.armv8m import ARMV8M
from edgetune.target.isa.helium import COSTS, HELIUM

ARMV8_1M = replace(ARMV8M, name="armv8.1m", vectors=HELIUM, costs=COSTS)
