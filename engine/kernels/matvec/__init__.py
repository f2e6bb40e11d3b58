"""Products of large matrices with a few vectors."""

from engine.kernels.matvec.op import MOST_PARTS, MOST_ROWS, matvec

__all__ = ["MOST_PARTS", "MOST_ROWS", "matvec"]
