"""Measuring: schedule traces of kernels enter, correct and timed candidates leave.

Candidates are lowered, printed and compiled by persistent worker processes (`builder`), then loaded, compared with
reference outputs and timed in a forked child of a small runner process (`runner`), one at a time. `session` joins the
two. It may not know which board it measures on (`edgetune.boards` does), nor how candidates are chosen.
"""
