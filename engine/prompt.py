"""The prompt: a document first, then a question, each side tokenized on its own."""

from dataclasses import dataclass
from typing import Any

import torch
from jinja2.exceptions import TemplateError
from torch import Tensor

from common.errors import UnsupportedModel

# Private-use characters, which no template and no document has a reason to hold.
DOCUMENT_MARK = "\ue0d0document\ue0d1"
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


@dataclass(frozen=True)
class PromptTemplate:
    """The chat template, cut at the document and at the question."""

    tokenizer: Any
    head: str
    middle: str
    foot: str

    @classmethod
    def of(cls, tokenizer: Any) -> "PromptTemplate":
        """Render the tokenizer's chat template once, with marks for document and question.

        Raises: UnsupportedModel if the template alters or drops the document.
        """
        if not tokenizer.is_fast:
            raise UnsupportedModel("The tokenizer is a slow one, without character offsets.")
        if not tokenizer.chat_template:
            return cls(tokenizer, "", "\n\nQuestion: ", "\nAnswer:")
        return cls(tokenizer, *_cut(_render(tokenizer)))

    def encode_document(self, text: str) -> EncodedDocument:
        """Tokenize the template's head and the document; special tokens in the text are text."""
        head = self._template_ids(self.head)
        encoded = self.tokenizer(
            text,
            add_special_tokens=False,
            split_special_tokens=True,
            return_offsets_mapping=True,
            verbose=False,
        )
        spans = [(-1, -1)] * len(head) + encoded["offset_mapping"]
        return EncodedDocument(
            ids=torch.tensor(head + encoded["input_ids"], dtype=torch.int64),
            offsets=torch.tensor(spans, dtype=torch.int32).reshape(-1, 2),
        )

    def encode_question(self, question: str) -> Tensor:
        """Tokenize what follows the document: question and the start of the answer; int64."""
        text = self.tokenizer(
            question, add_special_tokens=False, split_special_tokens=True, verbose=False
        )
        ids = self._template_ids(self.middle) + text["input_ids"] + self._template_ids(self.foot)
        return torch.tensor(ids, dtype=torch.int64)

    def encode_answer(self, answer: str) -> Tensor:
        """Tokenize an answer alone, as it is teacher-forced in calibration; int64."""
        text = self.tokenizer(
            answer, add_special_tokens=False, split_special_tokens=True, verbose=False
        )
        return torch.tensor(text["input_ids"], dtype=torch.int64)

    def _template_ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids


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
    raise UnsupportedModel("The chat template shows neither system nor user messages.")


def _cut(text: str) -> tuple[str, str, str]:
    if text.count(DOCUMENT_MARK) != 1 or text.count(QUESTION_MARK) != 1:
        raise UnsupportedModel("The chat template repeats or alters the document.")
    head, rest = text.split(DOCUMENT_MARK)
    if QUESTION_MARK not in rest:
        raise UnsupportedModel("The chat template puts the question before the document.")
    middle, foot = rest.split(QUESTION_MARK)
    return head, middle, foot
