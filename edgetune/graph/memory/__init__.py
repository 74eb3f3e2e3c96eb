"""Memory planning: the arena offset of every tensor in it, and which outputs overwrite an operand."""
