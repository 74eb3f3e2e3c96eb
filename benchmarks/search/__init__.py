"""Search on single operators: packages of tensor expressions beside PyTorch, and how far they are from the roofline."""
