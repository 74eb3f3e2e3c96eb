"""Transports: one file for each way to boards that edgetune itself has; `pyproject.toml` names them.

A board of a target and an address enter, its shell and files leave, or a `Board` for a measuring session. The modules
that talk to boards are imported where they are needed: a list of boards needs none of them.
"""
