"""Vote and threshold: the runs of tokens that questions attend to."""

from engine.kernels.select_runs.op import select_runs

__all__ = ["select_runs"]
