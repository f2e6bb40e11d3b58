"""The table in which the kernels of a captured prefill find their question."""

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

ALL_TOKENS = -1  # as a number of wanted tokens: every cluster that holds a token is selected


class Field(IntEnum):
    """Numbers that a question has once; those of its layers stand behind them."""

    DOCUMENT = 0  # its slot in the document table
    NUM_TOKENS = 1
    LAST = 2  # its last token
    POSITION = 3  # of its first token
    MASS = 4  # an address: attention mass by place in the document, fp32; 0 for none
    NUM_EARLIER = 5  # tokens behind the document whose keys are there already
    WANTED = 8  # first layer's number of clustered tokens to select over all heads


@dataclass(frozen=True)
class AskedQuestion:
    """A question, or a part of one.

    Attributes:
        document: its document's slot in the document table.
        num_tokens: that it has.
        position: of its first token.
        wanted: by layer, clustered tokens to select over all heads; `ALL_TOKENS` for all.
        mass: (document tokens,) fp32, contiguous, by place in the document: squares of its last
            token's attention weights are added. None to add none.
        num_earlier: tokens between the document and this part: earlier parts and turns. Their keys
            and values stand in the workspace before the pass.
    """

    document: int
    num_tokens: int
    position: int
    wanted: tuple[int, ...]
    mass: Tensor | None = None
    num_earlier: int = 0


class QuestionTable:
    """One question, in a tensor that one copy fills.

    Args:
        num_layers: of the model.

    Attributes:
        device: all numbers (n,) int64 on the device.
        asked: the question that was written last; None for none.
    """

    def __init__(self, num_layers: int, device: torch.device) -> None:
        self.device = torch.zeros(Field.WANTED + num_layers, dtype=torch.int64, device=device)
        self.asked: AskedQuestion | None = None

    @property
    def last(self) -> Tensor:
        """The question's last token (1,) int64 on the device."""
        return self.device[Field.LAST : Field.LAST + 1]

    @property
    def position(self) -> Tensor:
        """The position of its first token (1,) int64 on the device."""
        return self.device[Field.POSITION : Field.POSITION + 1]

    def clear(self) -> None:
        """Leave no question; nothing waits for the device."""
        self.asked = None
        self.device.zero_()

    def write(self, asked: AskedQuestion) -> None:
        """Write a question; nothing waits for the device."""
        self.asked = asked
        numbers = [0] * Field.WANTED
        numbers[Field.DOCUMENT] = asked.document
        numbers[Field.NUM_TOKENS], numbers[Field.LAST] = asked.num_tokens, asked.num_tokens - 1
        numbers[Field.POSITION] = asked.position
        numbers[Field.NUM_EARLIER] = asked.num_earlier
        numbers[Field.MASS] = 0 if asked.mass is None else asked.mass.data_ptr()
        host = torch.tensor([*numbers, *asked.wanted], dtype=torch.int64)
        if self.device.is_cuda:  # pinned memory is not used again before its copy has ended
            host = host.pin_memory()
        self.device.copy_(host, non_blocking=True)
