"""Causal attention of a chunk of tokens to all before it, or to a window, with its log-sum-exp."""

from engine.kernels.attend_causal.op import attend_all, attend_causal, attend_window

__all__ = ["attend_all", "attend_causal", "attend_window"]
