"""Joining partial attention over disjoint sets of keys."""

from engine.kernels.merge_states.op import merge_states

__all__ = ["merge_states"]
