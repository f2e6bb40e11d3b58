"""Attention of one token a question over a resident document, without waiting for the host."""

from engine.kernels.decode_attention.op import decode_attention, supports

__all__ = ["decode_attention", "supports"]
