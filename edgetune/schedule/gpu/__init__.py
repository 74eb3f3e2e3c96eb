"""Designs of kernels for GPUs: traced schedules whose sizes are decisions, with limits that need no replay."""
