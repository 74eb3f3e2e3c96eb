"""Bundles: candidates that travel as a folder to a machine with a GPU, and their times that come back as records.

`export` makes the folder from a model and a target, `run` starts the C runner in it, `import` reads its results. The
folder is hostile when it comes back: nothing of it is believed that the manifest's own hash and schema do not say.
"""
