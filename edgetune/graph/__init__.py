"""Graph room: a Relax module with static shapes enters, a `Program` of unscheduled kernels and their call order leaves.

Folds constants and scales, chooses the layout, recognises quantised operators, fuses, merges duplicates, puts operands
of concatenations into their results, plans memory. Knows nothing of search, boards or C.
"""
