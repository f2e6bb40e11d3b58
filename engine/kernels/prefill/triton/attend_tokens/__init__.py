"""The Triton kernels of `attend_tokens`; `launch` runs them."""
