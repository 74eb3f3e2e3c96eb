"""Measuring: schedule traces of kernels enter, correct and timed candidates leave.

Candidates are lowered, printed and compiled by persistent worker processes (`builder`). Boards (`edgetune.boards`)
compare them with reference outputs and time them, each one candidate at a time (`fleet`). `session` joins the two.
This room knows neither which board it measures on nor how candidates are chosen.
"""
