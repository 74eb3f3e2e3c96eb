"""Graph passes: a Relax module enters, a `Program` of unscheduled kernels and their calls leaves.

Folds constants and scales, chooses the layout (`layout/`), recognises quantised operators, fuses, merges duplicates,
keeps as integers what kernels can widen (`stored_integers`), puts operands of concatenations into their results
(`views/`), plans memory (`memory/`). Knows nothing of search, boards or C.
"""
