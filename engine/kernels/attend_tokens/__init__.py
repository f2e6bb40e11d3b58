"""Exact attention over the tokens that each head lists."""

from engine.kernels.attend_tokens.op import attend_tokens

__all__ = ["attend_tokens"]
