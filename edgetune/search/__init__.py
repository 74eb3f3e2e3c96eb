"""Search: a program, a target and a record store enter, measured schedules leave as records.

Decides which kernel gets the next trials (`scheduler`), which programs to try (`search`, `cost_model`)
and drives measuring (`loop`). It must not depend on how a board is reached, nor on how a package is written.
"""
