"""Forms room: a kernel's unscheduled function enters, other functions that compute the same leave.

A form has a name, derives from the function alone, and says what happens to constants when a package is built.
Schedules belong to a form; their text says which. Nothing here knows about records, measuring or C.
"""
