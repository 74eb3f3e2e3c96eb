"""Affine indices: how the place of an access moves along axes, where it is inside its tensor, what it is at places."""
