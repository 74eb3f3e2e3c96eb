"""Rewrites: unscheduled kernels enter, from models and from expressions; kernels that can be scheduled well leave."""
