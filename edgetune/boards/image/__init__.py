"""Boards without operating system under a system emulator: each candidate becomes an image that starts by itself.

In: a candidate as a relocatable object, arrays as files. Out: a verdict, and the instructions of one call, counted by a
plugin of the emulator. Nothing here knows how candidates are made.
"""
