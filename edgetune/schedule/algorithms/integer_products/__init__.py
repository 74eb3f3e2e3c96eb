"""Products of 8-bit integers by the instructions that a core has for other types, with the same sums.

A kernel enters, and the kernel with its data as an instruction wants it leaves: in another type and with a border, in a
copy where the kernel's own tensor does not have it so.
"""
