"""Sketches: an unscheduled kernel and a target enter, design spaces of TVM schedules leave.

A design space is a traced schedule whose tile sizes are sampled decisions, so that TVM's mutators can evolve it.
Nothing here knows about models, records, measuring or C; no rule may name a model or a shape.
"""

from edgetune.schedule.sketches.spaces import design_spaces, module_of, mutator_probs, postprocs
from edgetune.schedule.sketches.tvm_target import tvm_target

__all__ = ["design_spaces", "module_of", "mutator_probs", "postprocs", "tvm_target"]
