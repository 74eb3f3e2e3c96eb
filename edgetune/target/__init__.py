"""Targets: what a board is, its instruction set, and the compiler and programs that serve it."""
