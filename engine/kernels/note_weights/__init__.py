"""How much the tokens that were listed weigh, added up by their places in the document."""

from engine.kernels.note_weights.listed import Listed
from engine.kernels.note_weights.op import note_weights

__all__ = ["Listed", "note_weights"]
