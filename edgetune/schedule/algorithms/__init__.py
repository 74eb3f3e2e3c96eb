"""Algorithms: an unscheduled kernel's function enters, other functions that compute the same leave.

An algorithm has a name, derives from the function alone, and defines the transforms of constants at build time. A
schedule belongs to one algorithm, which its text names. Nothing here knows about records, measuring or C.
"""
