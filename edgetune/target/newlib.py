"""newlib, the C library of boards without operating system: the words that link an image with it."""

from __future__ import annotations

NEWLIB = ("-nostartfiles", "--specs=nano.specs", "--specs=rdimon.specs")
"""Its small library, with input and output by semihosting; the image has a start-up of its own."""
