"""Zero-copy views: a concatenation or a slice copies nothing, because kernels read and write its parts in place.

`lower_splits` makes slices of all splits, `copy_kernels` recognises the kernels that only copy, `view_layout` decides
which tensors lie within others, and `eliminate_copies` builds the program.
"""
