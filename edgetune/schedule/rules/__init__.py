"""Derivation rules: each has a condition and an application, and turns a kernel's stages into part of a schedule."""
