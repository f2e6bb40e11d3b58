"""How models mark what they think before they answer, told token by token.

Two ways are known: a pair of tags (`<think>` and `</think>`, as Qwen, DeepSeek and SmolLM have
them), and the channels of gpt-oss, of which the one named "final" holds the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

TAGS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
)
START, CHANNEL, MESSAGE, END = CHANNEL_TOKENS = (
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
)
FINAL = "final"


class Part(Enum):
    """What a generated token belongs to; a mark is a part of the format, and no text."""

    THINKING = "thinking"
    ANSWER = "answer"
    MARK = "mark"


class ThinkingParser(Protocol):
    """Follows one answer.

    Attributes:
        is_thinking: whether the next token belongs to thinking, as far as can be told.
    """

    is_thinking: bool

    def push(self, token: int) -> Part:
        """Say what the next token belongs to."""
        ...

    def closing(self) -> tuple[int, ...]:
        """Return the tokens that end thinking here and begin the answer."""
        ...


class ThinkingFormat(Protocol):
    """A model's way of marking its thinking."""

    @property
    def is_expected(self) -> bool:
        """Whether the prompt leaves it to the model to think, or asks it to."""
        ...

    @property
    def marks(self) -> frozenset[int]:
        """Tokens of the format; none of them ends an answer."""
        ...

    def parser(self) -> ThinkingParser:
        """Return a parser for one answer."""
        ...


@dataclass(frozen=True)
class ThinkTags:
    """Thinking between two tags.

    Attributes:
        begin, end: tokens of the tags.
        gap: tokens between the end tag and the answer where thinking is cut short.
        is_begun: whether the prompt ends within thinking.
        is_expected: whether the prompt does not end with thinking that is over.
    """

    begin: int
    end: int
    gap: tuple[int, ...]
    is_begun: bool
    is_expected: bool

    @property
    def marks(self) -> frozenset[int]:
        """See `ThinkingFormat.marks`."""
        return frozenset((self.begin, self.end))

    def parser(self) -> "TagParser":
        """See `ThinkingFormat.parser`."""
        return TagParser(self)


class TagParser:
    """See `ThinkingParser`."""

    def __init__(self, tags: ThinkTags) -> None:
        self._tags = tags
        self.is_thinking = tags.is_begun

    def push(self, token: int) -> Part:
        """See `ThinkingParser.push`."""
        if token in self._tags.marks:
            self.is_thinking = token == self._tags.begin
            return Part.MARK
        return Part.THINKING if self.is_thinking else Part.ANSWER

    def closing(self) -> tuple[int, ...]:
        """See `ThinkingParser.closing`."""
        return (self._tags.end, *self._tags.gap)


@dataclass(frozen=True)
class Channels:
    """Messages of channels, each behind a header that names its channel.

    Attributes:
        start, channel, message, end: tokens of the format.
        final_header: tokens of the header of the answer.
        next_message: tokens that end a message and begin the next one's header.
        decode: from tokens to text.
    """

    start: int
    channel: int
    message: int
    end: int
    final_header: tuple[int, ...]
    next_message: tuple[int, ...]
    decode: Callable[[list[int]], str]
    is_expected: bool = True

    @property
    def marks(self) -> frozenset[int]:
        """See `ThinkingFormat.marks`."""
        return frozenset((self.start, self.channel, self.message, self.end))

    def parser(self) -> "ChannelParser":
        """See `ThinkingFormat.parser`."""
        return ChannelParser(self)


class ChannelParser:
    """See `ThinkingParser`; the prompt ends with the beginning of a header."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._header: list[int] | None = None  # of the message to come; None within a message
        self._begun = False
        self.is_thinking = True

    def push(self, token: int) -> Part:
        """See `ThinkingParser.push`."""
        channels = self._channels
        if token == channels.message:
            name = channels.decode(self._header or []).strip()
            self.is_thinking = self._begun and name.split(" ")[0] != FINAL
            self._header = None
        elif token in channels.marks:
            self._header, self.is_thinking = [], True
        elif self._header is not None:
            self._header.append(token)
        elif not self._begun:  # no header at all
            self.is_thinking = False
            self._begun = True
            return Part.ANSWER
        else:
            return Part.THINKING if self.is_thinking else Part.ANSWER
        self._begun = True
        return Part.MARK

    def closing(self) -> tuple[int, ...]:
        """See `ThinkingParser.closing`."""
        if not self._begun:
            return self._channels.final_header
        return (*self._channels.next_message, *self._channels.final_header)


def find_thinking_format(tokenizer: Any, foot: tuple[int, ...]) -> ThinkingFormat | None:
    """Find how a model marks thinking, from the tokens that its tokenizer has for it.

    Args:
        foot: the prompt's last tokens, behind the question.
    """
    vocabulary = tokenizer.get_vocab()

    def ids(text: str) -> tuple[int, ...]:
        return tuple(
            tokenizer(text, add_special_tokens=False, split_special_tokens=False)["input_ids"]
        )

    tokens = (START, CHANNEL, MESSAGE, END)
    if all(token in vocabulary for token in tokens):
        start, channel, message, end = (vocabulary[token] for token in tokens)
        return Channels(
            start,
            channel,
            message,
            end,
            final_header=ids(f"{CHANNEL}{FINAL}{MESSAGE}"),
            next_message=ids(f"{END}{START}assistant"),
            decode=tokenizer.decode,
        )
    for begin_tag, end_tag in TAGS:
        if begin_tag in vocabulary and end_tag in vocabulary:
            begin, end = vocabulary[begin_tag], vocabulary[end_tag]
            last = next((token for token in reversed(foot) if token in (begin, end)), None)
            return ThinkTags(begin, end, ids("\n\n"), last == begin, last != end)
    return None
