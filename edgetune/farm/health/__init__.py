"""Health of the boards of a night: before its cells run, each board is compared with its own past.

Enters: a board's name, its past in the verdicts of earlier nights. Leaves: a `BoardHealth`, kept in the facts of the
verdicts of its cells. It knows no package but the pinned ones.
"""
