"""Partial states of a decode step, joined."""

from engine.kernels.merge_splits.op import merge_splits

__all__ = ["merge_splits"]
