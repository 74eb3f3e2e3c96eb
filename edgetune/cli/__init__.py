"""The command line: one thin file per verb, exit codes, ``--json``.

Each verb reads ``argv`` and makes one library call. Results go to stdout, progress and errors to stderr, with one
exit code per error class. This package adds nothing that the library calls lack. It imports the libraries only
inside the verbs, so that ``--help`` and shell completion answer at once.
"""
