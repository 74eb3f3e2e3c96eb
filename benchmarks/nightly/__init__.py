"""Measurements of the nightly gate: recorded starts, a simulator of nights, and how often the gate is wrong."""
