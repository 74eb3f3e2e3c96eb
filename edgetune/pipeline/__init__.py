"""Pipelines: the steps from a model to a package, which join all rooms below."""
