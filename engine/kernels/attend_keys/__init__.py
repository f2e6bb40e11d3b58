"""Exact attention over a given set of keys, with its log-sum-exp."""

from engine.kernels.attend_keys.op import attend_keys, attention_weights

__all__ = ["attend_keys", "attention_weights"]
