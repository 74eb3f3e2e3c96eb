"""Packages beside the runtimes of others, timed in turns on one core.

Enters: ONNX models, and packages or the records they are built from. Leaves: a Markdown table and JSON. This room knows
packages by their files alone; of edgetune it borrows reading models, reference answers, child processes and the timing
lock.
"""
