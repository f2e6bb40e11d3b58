"""The Triton kernels of `attend_question`; `launch` runs them."""
