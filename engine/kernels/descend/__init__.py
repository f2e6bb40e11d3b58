"""Hierarchical lookup: level 1 prunes, and level 2 is scored below what is left."""

from engine.kernels.descend.op import descend

__all__ = ["descend"]
