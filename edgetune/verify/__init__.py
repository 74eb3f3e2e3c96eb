"""Verification: a package is built and run, and its outputs are compared with a reference."""
