"""A question for the engine loop, and who waits for its answer."""

from dataclasses import dataclass
from typing import Protocol

from common.owner import Owner
from engine.decode.answer import Answer, TextDelta
from engine.decode.sampling import Sampling, TokenMask
from engine.decode.turn_states import DocumentKey
from engine.document.budget import Budget
from engine.document.cache import DocumentCache
from engine.model.prompt import Turn


class AnswerListener(Protocol):
    """Who waits for an answer; the loop calls it in this order, and it never keeps the loop."""

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody wants the answer any more; asked before every forward pass."""
        ...

    def begin(self) -> None:
        """The question got its slot; called on the loop's thread."""
        ...

    def open_document(self) -> DocumentCache:
        """Return the document, which may take a while; called on a thread for that."""
        ...

    @property
    def document_key(self) -> DocumentKey | None:
        """As which document's turns earlier ones may be kept; asked once it is open."""
        ...

    def deliver(self, item: TextDelta | Answer) -> None:
        """Take a piece of text, or at last the whole answer."""
        ...

    def end(self, error: Exception | None) -> None:
        """Take note that this was all: the document is not used any more. Called once.

        Args:
            error: what ended it before it was complete; `CallerGone` if it was cancelled.
        """
        ...


@dataclass(frozen=True)
class AnswerRequest:
    """A question that is to be answered.

    Attributes:
        owner: whose question it is; tenants and their keys are served in turn.
        question: its text.
        budget: share of the document cache's bytes that may be read per token, in (0, 1], or how
            much the answer may lose.
        sampling: how tokens are chosen, and how many there may be.
        listener: who waits for the answer.
        turns: earlier questions with their answers, oldest first.
        may_drop_turns: whether the oldest turns are left out where they do not fit.
        mask: which tokens may come; None for all.
        turns_alone: nothing is asked: the turns are prefilled and kept for a question that may
            come, if the listener has a `document_key`. Its listener hears of the end alone.
    """

    owner: Owner
    question: str
    budget: Budget
    sampling: Sampling
    listener: AnswerListener
    turns: tuple[Turn, ...] = ()
    may_drop_turns: bool = False
    mask: TokenMask | None = None
    turns_alone: bool = False
