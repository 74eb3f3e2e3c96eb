"""Names for TVM's objects, which are in `edgetune.tvm_types`."""

from edgetune.tvm_types import *  # noqa: F403  the names move
