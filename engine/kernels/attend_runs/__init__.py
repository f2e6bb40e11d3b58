"""Exact attention over listed runs of tokens, in equal shares."""

from engine.kernels.attend_runs.op import attend_runs

__all__ = ["attend_runs"]
