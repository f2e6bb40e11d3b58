"""Near keys attended to and centroids scored, side by side: the first step of decoding."""

from engine.kernels.survey.op import survey

__all__ = ["survey"]
