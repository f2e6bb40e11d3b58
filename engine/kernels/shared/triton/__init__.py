"""The Triton kernels; each has its contract and reference in the folder above."""
