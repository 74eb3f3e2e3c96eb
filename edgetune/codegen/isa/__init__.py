"""C snippets of vector operations that depend on what an instruction set offers."""
