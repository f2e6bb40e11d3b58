"""The prompt: a document first, then a question, each side tokenized on its own."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jinja2.exceptions import TemplateError
from torch import Tensor

from common.errors import UnsupportedModel
from engine.model.token_lengths import most_chars_per_token
from engine.model.token_windows import WindowedTokenizer

# Private-use characters, which no template and no document has a reason to hold.
# The signs between them show whether a template escapes or rewrites what it is given.
DOCUMENT_MARK = '\ue0d0The Document\'s <text> & "lines"\nof it\ue0d1'
QUESTION_MARK = "\ue0d2question\ue0d3"
INSTRUCTION = "Answer the question from this document alone. If it does not say, say so.\n\n"
# A model that marks documents itself (the bundled reader) needs no instruction.
DOCUMENT_TOKEN = "<|document|>"
FROZEN_DATE = "26 Jul 2024"


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
        chars_per_token: the most characters that a token can stand for; None if there is no limit.
    """

    tokenizer: Any
    head: tuple[int, ...]
    middle: tuple[int, ...]
    foot: tuple[int, ...]
    chars_per_token: int | None

    @classmethod
    def of(cls, tokenizer: Any) -> "PromptTemplate":
        """Render the tokenizer's chat template once, with marks for document and question.

        Raises: UnsupportedModel if the template alters or drops the document.
        """
        if not tokenizer.is_fast:
            raise UnsupportedModel("The tokenizer is a slow one, without character offsets.")
        if tokenizer.chat_template:
            parts = _cut(_render(tokenizer))
        else:
            parts = (_start(tokenizer), "\n\nQuestion: ", "\nAnswer:")
        head, middle, foot = (_template_ids(tokenizer, part) for part in parts)
        prompt = cls(tokenizer, head, middle, foot, most_chars_per_token(tokenizer))
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

    def encode_question(self, question: str) -> Tensor:
        """Tokenize what follows the document: question and the start of the answer; int64."""
        ids = [*self.middle, *self._encode(question)["input_ids"], *self.foot]
        return torch.tensor(ids, dtype=torch.int64)

    def encode_answer(self, answer: str) -> Tensor:
        """Tokenize an answer alone, as it is teacher-forced in calibration; int64."""
        return torch.tensor(self._encode(answer)["input_ids"], dtype=torch.int64)

    def _encode(self, text: str) -> Any:
        return self.tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, verbose=False
        )


def _encoded(ids: Iterable[int], spans: list[tuple[int, int]]) -> EncodedDocument:
    return EncodedDocument(
        ids=torch.tensor([*ids], dtype=torch.int64),
        offsets=torch.tensor(spans, dtype=torch.int32).reshape(-1, 2),
    )


def _template_ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    encoded = tokenizer(text, add_special_tokens=False, split_special_tokens=False, verbose=False)
    return tuple(encoded["input_ids"])


def _start(tokenizer: Any) -> str:
    """What a tokenizer without a template puts first: its beginning-of-text token, or nothing."""
    first = tokenizer("", verbose=False)["input_ids"][:1]
    return tokenizer.bos_token if first and first[0] == tokenizer.bos_token_id else ""


def _render(tokenizer: Any) -> str:
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
                messages,
                tokenize=False,
                add_generation_prompt=True,
                date_string=FROZEN_DATE,  # a date would make every day's prompt another one
                strftime_now=lambda _: FROZEN_DATE,
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
