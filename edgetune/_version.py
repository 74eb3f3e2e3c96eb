"""Version number of edgetune."""

__version__ = "0.1.0"
