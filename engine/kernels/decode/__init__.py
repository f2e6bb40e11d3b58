"""Attention and linear layers of one new token a question: the kernels of a decode step."""
