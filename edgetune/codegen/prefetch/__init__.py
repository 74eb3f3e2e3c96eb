"""Software prefetching: loads cache lines that a kernel is about to need while it computes on others."""
