"""The command line: one thin file per verb, exit codes, ``--json``.

What enters is ``argv``; what leaves is a library call, its result on stdout, progress and errors on stderr, and an
exit code per error class. This room knows nothing that a library call could do, and imports the libraries only
inside the verbs, so that ``--help`` and shell completion answer at once.
"""
