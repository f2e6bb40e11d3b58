"""What a document's attention was found to be in calibration: which heads retrieve, and tokens
that are attended to whatever is asked."""

from dataclasses import dataclass

import torch
from torch import Tensor

MOST_HEADS = 64  # KV heads of a model that evidence is looked for in


@dataclass(frozen=True)
class RetrievalProfile:
    """How attention mass is made evidence of, for one document.

    Attributes:
        head_weights: (layers, heads) fp32 on the CPU: how much each retrieval head of a layer
            counts, by how much of its mass lay where a probe's answer stands; 0 for what is no
            retrieval head, and for all but the `MOST_HEADS` that find most. Times the query heads
            that share a KV head they sum to 1.
        neutral: (tokens,) fp32 on the CPU: the mass, so weighted, that a document token gets in a
            pass about something that stands elsewhere: the mean over probes.
    """

    head_weights: Tensor
    neutral: Tensor

    def log_weights(self, device: torch.device) -> Tensor:
        """Logarithms of the heads' weights (layers, heads) fp32 on a device; -inf for none."""
        return self.head_weights.log().to(device)
