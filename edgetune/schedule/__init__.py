"""Schedules: an unscheduled kernel and a target enter, scheduled functions and their C text leave."""
