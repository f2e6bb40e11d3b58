"""How many tokens an answer may take, and how many what is thought before it."""

from dataclasses import dataclass

from engine.decode.sampling import Sampling
from engine.model.thinking import ThinkingFormat

MARK_TOKENS = 32  # room for the marks of thinking


@dataclass(frozen=True)
class TokenLimits:
    """Limits of one answer, in tokens.

    Attributes:
        answer: of the answer.
        thinking: of thinking; 0 where the prompt leaves no room for it.
        total: of both, and of the marks between them.
    """

    answer: int
    thinking: int
    total: int

    @classmethod
    def within(
        cls, room: int, sampling: Sampling, thinking: ThinkingFormat | None
    ) -> "TokenLimits":
        """Share the room that a model's context leaves; the answer comes first.

        Args:
            room: tokens behind document and question.
            sampling: what was asked for.
            thinking: how the model marks thinking; None if it does not.
        """
        answer = min(sampling.max_tokens, room)
        if thinking is None:
            return cls(answer, 0, answer)
        left = max(0, room - answer - MARK_TOKENS)
        limit = min(sampling.max_thinking_tokens, left) if thinking.is_expected else 0
        return cls(answer, limit, min(room, answer + limit + MARK_TOKENS))
