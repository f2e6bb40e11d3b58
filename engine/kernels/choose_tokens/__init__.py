"""Lookup for a block of question tokens: the tokens of the clusters that they vote for."""

from engine.kernels.choose_tokens.chosen import Chosen
from engine.kernels.choose_tokens.op import choose_tokens

__all__ = ["Chosen", "choose_tokens"]
