"""CUDA as a dialect of the C printer: lowering for a GPU, printing of its kernels, and their launches as data."""
