"""Kernels against a library's attention and against the machine, on one GPU."""
