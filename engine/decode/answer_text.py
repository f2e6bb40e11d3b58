"""The text of an answer as it grows: what is thought, and what is answered, kept apart."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from engine.decode.answer import TextDelta, Thinking
from engine.decode.detokenizer import IncrementalDetokenizer
from engine.decode.quote_decoder import QuoteDecoder
from engine.decode.sentence_marks import SentenceEnds
from engine.decode.stop_strings import StopStrings
from engine.decode.token_limits import TokenLimits
from engine.model.thinking import Part, ThinkingFormat


class AnswerText:
    """Sorts tokens into thinking and answer, and turns both into text.

    Args:
        tokenizer: of the model.
        thinking: how the model marks thinking; None if it does not.
        limits: of both parts.
        stops: strings at which the answer ends; thinking may hold them.
        quotes: turns the answer's tokens into text, where it is to quote.
        sentence_ends: tokens whose text is to be known when they are taken; None for all.

    Attributes:
        num_answer: tokens of the answer so far.
        num_thinking: tokens of thinking and of its marks so far.
    """

    def __init__(
        self,
        tokenizer: Any,
        thinking: ThinkingFormat | None,
        limits: TokenLimits,
        stops: Sequence[str] = (),
        quotes: QuoteDecoder | None = None,
        sentence_ends: SentenceEnds | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._answer = quotes or IncrementalDetokenizer(tokenizer)
        self._thinking = IncrementalDetokenizer(tokenizer)
        self._parser = thinking.parser() if thinking else None
        self._marks = thinking.marks if thinking else frozenset()
        self._limits = limits
        self._stops = StopStrings(stops)
        self._forced: deque[int] = deque()
        self._is_cut = False
        self._sentence_ends = sentence_ends
        # Whether something else than the text itself follows from the text of every token.
        self._needs_text = bool(stops) or thinking is not None or quotes is not None
        self._unread: int | None = None  # a token that was taken, and whose text is not known
        self._read = TextDelta("")  # of the token before, where it is known
        self.num_answer = self.num_thinking = 0

    @property
    def is_thinking(self) -> bool:
        """Whether the answer has not begun yet."""
        return self._parser is not None and self._parser.is_thinking

    @property
    def is_full(self) -> bool:
        """Whether the answer has as many tokens as it may have."""
        return self.num_answer >= self._limits.answer

    @property
    def ends_with_next(self) -> bool:
        """Whether the answer has as many tokens as it may have with the next one."""
        return self.num_answer + 1 >= self._limits.answer

    @property
    def is_stopped(self) -> bool:
        """Whether the answer has come to a stop string, which is no part of it."""
        return self._stops.found

    def is_end(self, token: int, eos_ids: tuple[int, ...]) -> bool:
        """Whether a token ends the answer; a mark of thinking never does."""
        return token in eos_ids and token not in self._marks

    def forced_token(self) -> int | None:
        """Return the token that must come next, whatever the model says; None if it may choose.

        Thinking that has reached its limit is ended as the model would have ended it.
        """
        if (
            self._parser
            and not self._forced
            and self.is_thinking
            and self.num_thinking >= self._limits.thinking
        ):
            self._forced.extend(self._parser.closing())
            self._is_cut = True
        return self._forced.popleft() if self._forced else None

    @property
    def is_read(self) -> bool:
        """Whether the text of all tokens that were taken is known."""
        return self._unread is None

    def take(self, token: int) -> None:
        """Add a token, to be followed by `read`.

        Its text, which takes longest, is worked out there, unless anything else follows from it:
        whether the answer ends, or whether a sentence does.
        """
        ends = self._sentence_ends
        if self._needs_text or ends is None or ends.may_end(token):
            self._read = self._push(token)
        else:
            self._unread = token
            self.num_answer += 1

    def read(self) -> TextDelta:
        """Return the text that is certain now, "" while a character is incomplete."""
        if self._unread is not None:
            self._read = TextDelta(self._answer.push(self._unread))
            self._unread = None
        return self._read

    def _push(self, token: int) -> TextDelta:
        part = self._parser.push(token) if self._parser else Part.ANSWER
        if part is Part.ANSWER and not self._is_gap(token):
            self.num_answer += 1
            piece = self._trimmed(self._answer, self._answer.push(token))
            return TextDelta(self._stops.push(piece))
        self.num_thinking += 1
        piece = self._thinking.push(token) if part is Part.THINKING else self._thinking.flush()
        return TextDelta(self._trimmed(self._thinking, piece), is_thinking=True)

    def flush(self) -> TextDelta:
        """Return the text that was held back for an incomplete character."""
        if self.is_thinking:
            return TextDelta(self._trimmed(self._thinking, self._thinking.flush()), True)
        last = self._stops.push(self._trimmed(self._answer, self._answer.flush()))
        return TextDelta(last + self._stops.flush())

    @property
    def answer(self) -> str:
        """The text of the answer so far."""
        text = self._answer.text
        return self._stops.cut(text.lstrip() if self.num_thinking else text)

    @property
    def thinking(self) -> Thinking | None:
        """What was thought so far; None if there is no sign of thinking."""
        if not self.num_thinking:
            return None
        return Thinking(self._thinking.text.strip(), self.num_thinking, self._is_cut)

    def _is_gap(self, token: int) -> bool:
        """Whether a token is but a blank between thinking and answer."""
        if not self.num_thinking or self.num_answer:
            return False
        return str(self._tokenizer.decode([token])).isspace()

    def _trimmed(self, source: IncrementalDetokenizer | QuoteDecoder, piece: str) -> str:
        """A piece without the blank lines that stand between marks and text."""
        begins = self.num_thinking > 0 and not source.text[: -len(piece) or None].strip()
        return piece.lstrip() if begins else piece
