"""Boards room: a built candidate and its test vectors enter, timings leave; one module per way to reach a board.

A board knows neither the tasks nor the search. Today there is one way: this machine (`local`).
"""
