"""Nights: every model of a farm file is tuned, verified and timed on every board, and compared with what was accepted.

A farm file, records and packages enter; verdicts, an archive of packages and a page leave. It runs whole runs through
`api`, each in a process of its own, and knows nothing of commands.
"""
