"""Configuration: the settings of a run, from flags, environment and YAML files.

What enters is text: ``edgetune.yaml``, target files, the user's own file, environment variables and flags.
What leaves are frozen pydantic objects whose every value is checked, and for each setting the place it came
from. This room knows nothing of TVM, of models beyond their path, and of how a board is reached.
"""
