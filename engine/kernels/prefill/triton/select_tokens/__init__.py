"""The Triton kernels of `select_tokens`; `launch` runs them."""
