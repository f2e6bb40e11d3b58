"""The prompt: a document first, then a question, each side tokenized on its own."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from jinja2.exceptions import TemplateError
from torch import Tensor

from common.errors import InvalidInput, UnsupportedModel
from engine.config import PromptConfig
from engine.model.fingerprint import digest
from engine.model.thinking import ThinkingFormat, find_thinking_format
from engine.model.token_lengths import most_chars_per_token
from engine.model.token_windows import WindowedTokenizer

# Private-use characters, which no template and no document has a reason to hold.
# The signs between them show whether a template escapes or rewrites what it is given.
DOCUMENT_MARK = '\ue0d0The Document\'s <text> & "lines"\nof it\ue0d1'
QUESTION_MARK = "\ue0d2question\ue0d3"
ANSWER_MARK = "\ue0d4answer\ue0d5"
NEXT_QUESTION_MARK = "\ue0d6question\ue0d7"
INSTRUCTION = "Answer the question from this document alone. If it does not say, say so.\n\n"
# A model that marks documents itself (the bundled reader) needs no instruction.
DOCUMENT_TOKEN = "<|document|>"
PLAIN_QUESTION = "\n\nQuestion: "
FROZEN_DATE = "26 Jul 2024"
# What every template is given; a date would make every day's prompt another one.
ARGUMENTS = MappingProxyType(
    {
        "enable_thinking": False,
        "date_string": FROZEN_DATE,
        "strftime_now": lambda _format: FROZEN_DATE,
    }
)
# Arguments of `apply_chat_template` itself, which are no business of a template's user.
RESERVED = frozenset(
    {"add_generation_prompt", "chat_template", "continue_final_message", "conversation",
     "documents", "max_length", "messages", "padding", "return_assistant_tokens_mask",
     "return_dict", "return_tensors", "strftime_now", "tokenize", "tokenizer_kwargs", "tools",
     "truncation"}
)  # fmt: skip
Ids = tuple[int, ...]  # token ids
Tokenize = Callable[[str], Ids]
NO_TEMPLATE = (
    "The tokenizer has no chat template. To ask the model in plain lines that begin with "
    "'Question:' and 'Answer:', as suits a base model, set LECTERN_PROMPT__FORMAT=plain."
)


@dataclass(frozen=True)
class Turn:
    """A question about a document and its answer, which a later question follows."""

    question: str
    answer: str


@dataclass(frozen=True)
class EncodedDocument:
    """The prompt's first side.

    Attributes:
        ids: (tokens,) int64, the template's head and the document.
        offsets: (tokens, 2) int32, half-open character spans; (-1, -1) for the template's tokens.
    """

    ids: Tensor
    offsets: Tensor

    @classmethod
    def joined(cls, parts: Iterable["EncodedDocument"]) -> "EncodedDocument":
        """Put the parts of a document together, of which there is at least one."""
        parts = tuple(parts)
        return cls(torch.cat([one.ids for one in parts]), torch.cat([one.offsets for one in parts]))


@dataclass(frozen=True)
class PromptTemplate:
    """The chat template, cut at the document and at the question.

    The template's own tokens are kept as ids: a fast tokenizer remembers from call to call whether
    special tokens are text, so once they are tokenized, every thread asks for the same.

    Attributes:
        head: ids before the document; middle: between document and question; foot: after it.
        between: ids between an answer and the next question; None if the template takes no second
            question.
        alone: ids before the first question of a chat without a document.
        chars_per_token: the most characters that a token can stand for; None if there is no limit.
        thinking: how the model marks its thinking; None if its tokenizer has no marks for it.
        fingerprint: identifies the head where the configuration makes it another one than the
            tokenizer's own; "" where it does not. A document's cache begins with the head.
    """

    tokenizer: Any
    head: tuple[int, ...]
    middle: tuple[int, ...]
    foot: tuple[int, ...]
    between: tuple[int, ...] | None = None
    alone: tuple[int, ...] = ()
    chars_per_token: int | None = None
    thinking: ThinkingFormat | None = None
    fingerprint: str = ""

    @classmethod
    def of(cls, tokenizer: Any, config: PromptConfig | None = None) -> "PromptTemplate":
        """Render the tokenizer's chat template once, with marks for document and question.

        Raises: UnsupportedModel if there is no template and no plain format was asked for, or if
            the template alters or drops the document; InvalidInput for an argument that it does
            not know.
        """
        if not tokenizer.is_fast:
            raise UnsupportedModel("The tokenizer is a slow one, without character offsets.")
        config = config or PromptConfig()
        head, middle, foot = (template_ids(tokenizer, part) for part in _parts(tokenizer, config))
        between = _between(tokenizer, config)
        prompt = cls(
            tokenizer,
            head,
            middle,
            foot,
            None if between is None else template_ids(tokenizer, between),
            template_ids(tokenizer, _alone(tokenizer, config)),
            chars_per_token=most_chars_per_token(tokenizer),
            thinking=find_thinking_format(tokenizer, foot),
            fingerprint="" if head == _usual_head(tokenizer) else digest({"head": head}),
        )
        prompt._encode("")  # sets the tokenizer's memory here, before there are other threads
        return prompt

    def most_chars(self, num_tokens: int) -> int | None:
        """Return how many characters a document can have at the most to be so many tokens.

        Args:
            num_tokens: those of the template's head included.
        Returns: None if the tokenizer sets no limit.
        """
        if self.chars_per_token is None:
            return None
        return max(0, num_tokens - len(self.head)) * self.chars_per_token

    def document_parts(self, text: str) -> Iterator[EncodedDocument]:
        """Tokenize the template's head and the document; special tokens in the text are text.

        The time between two parts and the memory that is used do not grow with the text.

        Yields: consecutive parts of what `encode_document` returns, at least one.
        Raises: DocumentRejected if the tokenizer would need too much of the text at once.
        """
        yield _encoded(self.head, [(-1, -1)] * len(self.head))
        for window in WindowedTokenizer(self.tokenizer).windows(text):
            yield _encoded(window.ids, window.spans)

    def encode_document(self, text: str) -> EncodedDocument:
        """Tokenize the template's head and the document. Raises: as `document_parts`."""
        return EncodedDocument.joined(self.document_parts(text))

    def encode_question(self, question: str, turns: Sequence[Turn] = ()) -> Tensor:
        """Tokenize what follows the document: earlier turns, question and the answer's start.

        What a model was given is the same in every turn: an earlier question is followed by `foot`
        as when it was asked, even where the template would write a past turn otherwise.

        Args:
            turns: earlier questions with their answers, oldest first.
        Returns: ids (tokens,) int64.
        Raises: InvalidInput if there are turns and the template takes one question alone.
        """
        return _joined(self.question_parts(question, turns))

    def encode_chat(self, question: str, turns: Sequence[Turn] = ()) -> Tensor:
        """Tokenize a whole chat without a document; int64. Raises: as `encode_question`."""
        return _joined(self.chat_parts(question, turns))

    def question_parts(
        self, question: str, turns: Sequence[Turn] = (), turn_ids: Tokenize | None = None
    ) -> tuple[Ids, ...]:
        """Tokenize what follows the document, in the parts in which it is prefilled.

        A turn is a part, up to the end of its answer; what stands between two turns begins the
        later one. So a turn is the same part of every question that comes after it.

        Args:
            turn_ids: gives what `ids` does, for the texts of turns; None for `ids`.
        Returns: ids of each turn, and at last of the question and the answer's start.
        Raises: as `encode_question`.
        """
        return self._parts(self.middle, question, turns, turn_ids or self.ids)

    def chat_parts(
        self, question: str, turns: Sequence[Turn] = (), turn_ids: Tokenize | None = None
    ) -> tuple[Ids, ...]:
        """Tokenize a whole chat without a document, as `question_parts`."""
        return self._parts(self.alone, question, turns, turn_ids or self.ids)

    def _parts(
        self, start: Ids, question: str, turns: Sequence[Turn], turn_ids: Tokenize
    ) -> tuple[Ids, ...]:
        parts = []
        for turn in turns:
            asked = (*start, *turn_ids(turn.question), *self.foot)
            parts.append((*asked, *turn_ids(turn.answer)))
            start = self._between()
        return (*parts, (*start, *self.ids(question), *self.foot))

    def _between(self) -> Ids:
        if self.between is None:
            raise InvalidInput("The model's chat template takes one question alone.")
        return self.between

    def encode_next(self, answer: str) -> tuple[int, ...]:
        """Tokenize an answer and what stands between it and the next question.

        Raises: InvalidInput if the template takes one question alone.
        """
        return (*self.ids(answer), *self._between())

    def encode_answer(self, answer: str) -> Tensor:
        """Tokenize an answer alone, as it is teacher-forced in calibration; int64."""
        return torch.tensor(self.ids(answer), dtype=torch.int64)

    def ids(self, text: str) -> Ids:
        """Tokenize a text on its own, in which nothing is a special token."""
        return tuple(self._encode(text)["input_ids"])

    def _encode(self, text: str) -> Any:
        return self.tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, verbose=False
        )


def _joined(parts: Iterable[Ids]) -> Tensor:
    return torch.tensor([token for part in parts for token in part], dtype=torch.int64)


def _encoded(ids: Iterable[int], spans: list[tuple[int, int]]) -> EncodedDocument:
    return EncodedDocument(
        ids=torch.tensor([*ids], dtype=torch.int64),
        offsets=torch.tensor(spans, dtype=torch.int32).reshape(-1, 2),
    )


def template_ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Tokenize text of a template, where special tokens are meant."""
    encoded = tokenizer(text, add_special_tokens=False, split_special_tokens=False, verbose=False)
    return tuple(encoded["input_ids"])


def _parts(tokenizer: Any, config: PromptConfig) -> tuple[str, str, str]:
    """The prompt's text before the document, between document and question, and after both."""
    if config.format == "plain":
        return _plain(tokenizer)
    if not tokenizer.chat_template:
        raise UnsupportedModel(NO_TEMPLATE)
    _check_arguments(tokenizer, config.template_arguments)
    return _cut(_render(tokenizer, {**ARGUMENTS, **config.template_arguments}))


def _usual_head(tokenizer: Any) -> tuple[int, ...] | None:
    """The head without any setting; None if there cannot be one."""
    usual = {name: value for name, value in ARGUMENTS.items() if name != "enable_thinking"}
    try:
        template = tokenizer.chat_template
        parts = _cut(_render(tokenizer, usual)) if template else _plain(tokenizer)
    except UnsupportedModel:
        return None
    return template_ids(tokenizer, parts[0])


def _plain(tokenizer: Any) -> tuple[str, str, str]:
    return _start(tokenizer), PLAIN_QUESTION, "\nAnswer:"


def _alone(tokenizer: Any, config: PromptConfig) -> str:
    """The prompt's text before the first question of a chat without a document."""
    if config.format == "plain":
        return _start(tokenizer) + PLAIN_QUESTION.lstrip()
    text: str = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION_MARK}],
        tokenize=False,
        add_generation_prompt=True,
        **{**ARGUMENTS, **config.template_arguments},
    )
    return text.partition(QUESTION_MARK)[0]


def _between(tokenizer: Any, config: PromptConfig) -> str | None:
    """The prompt's text between an answer and the next question; None if there cannot be one."""
    if config.format == "plain":
        return PLAIN_QUESTION
    turns = [
        {"role": "assistant", "content": ANSWER_MARK},
        {"role": "user", "content": NEXT_QUESTION_MARK},
    ]
    try:
        text = _render(tokenizer, {**ARGUMENTS, **config.template_arguments}, turns)
    except UnsupportedModel:
        return None
    _, has_answer, rest = text.partition(ANSWER_MARK)
    between, has_question, _ = rest.partition(NEXT_QUESTION_MARK)
    return between if has_answer and has_question else None


def _check_arguments(tokenizer: Any, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that the template has no use for.

    Raises: InvalidInput.
    """
    template = tokenizer.get_chat_template()
    for name in arguments:
        if name in RESERVED or not re.search(rf"\b{re.escape(name)}\b", template):
            raise InvalidInput(
                f"The model's chat template knows no argument '{name}' "
                "(LECTERN_PROMPT__TEMPLATE_ARGUMENTS)."
            )


def _start(tokenizer: Any) -> str:
    """What a tokenizer without a template puts first: its beginning-of-text token, or nothing."""
    first = tokenizer("", verbose=False)["input_ids"][:1]
    return tokenizer.bos_token if first and first[0] == tokenizer.bos_token_id else ""


def _render(
    tokenizer: Any, arguments: Mapping[str, Any], turns: Sequence[Mapping[str, str]] = ()
) -> str:
    """Render the template for a document, a question, and further turns after it.

    Raises: UnsupportedModel.
    """
    instruction = "" if DOCUMENT_TOKEN in tokenizer.get_vocab() else INSTRUCTION
    document = instruction + DOCUMENT_MARK
    apart = [
        {"role": "system", "content": document},
        {"role": "user", "content": QUESTION_MARK},
    ]
    together = [{"role": "user", "content": f"{document}\n\n{QUESTION_MARK}"}]
    for messages in (apart, together):
        try:
            text: str = tokenizer.apply_chat_template(
                [*messages, *turns], tokenize=False, add_generation_prompt=True, **arguments
            )
        except TemplateError:  # some templates refuse a system message
            continue
        if DOCUMENT_MARK in text:  # others drop it
            return text
    raise UnsupportedModel("The chat template drops or alters the document in every message.")


def _cut(text: str) -> tuple[str, str, str]:
    if text.count(DOCUMENT_MARK) != 1 or text.count(QUESTION_MARK) != 1:
        raise UnsupportedModel("The chat template repeats or alters the document or the question.")
    head, rest = text.split(DOCUMENT_MARK)
    if QUESTION_MARK not in rest:
        raise UnsupportedModel("The chat template puts the question before the document.")
    middle, foot = rest.split(QUESTION_MARK)
    return head, middle, foot
