"""Causes: why a package became slower. Enters: the accepted package and tonight's; leaves: the factor that carries it.

A factor is a member of `FACTORS` (factors.py): the folder with its change alone is built and timed in turns.
"""
