"""Triton kernels and their launches; the folder above has the contracts and the references."""
