"""Tuning room: a `Program`, a target and a record store enter, measured schedules of its kernels leave as records.

Decides which kernel gets the next trials (`scheduler`), which programs to try (`sketches`, `search`, `cost_model`)
and drives measuring (`loop`). It may not know how a board is reached, nor how a package is written.
"""
