"""Emulated boards: a target that is reached so enters, a running machine with an SSH server on loopback leaves.

The image is made from Debian packages, of which none is run here. This room knows nothing of tasks or candidates.
"""
