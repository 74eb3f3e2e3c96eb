"""Entry point of ``python -m edgetune``: the same as the ``edgetune`` command."""

from edgetune.cli.main import main

if __name__ == "__main__":
    main()
