"""Flavours that come with edgetune; each is an entry point of the group `edgetune.flavours`."""
