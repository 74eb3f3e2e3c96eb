"""Entry point of ``python -m edgetune``: the same as the ``edgetune`` command."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working folder: no Python is loaded from there

from edgetune.cli.main import main

if __name__ == "__main__":
    main()
