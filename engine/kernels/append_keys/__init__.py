"""A token's key and value, put behind a question's others."""

from engine.kernels.append_keys.op import append_keys

__all__ = ["append_keys"]
