"""What every token of a question sees: the question so far, and what lies near in the document."""

from engine.kernels.attend_near.near import NearKeys
from engine.kernels.attend_near.op import attend_near, supports

__all__ = ["NearKeys", "attend_near", "supports"]
