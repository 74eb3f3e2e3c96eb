"""Backends: each says how kernels for a kind of device are written, built, run and packaged."""
