"""Memory planning: the arena offset of every intermediate tensor, and which outputs overwrite an operand."""
