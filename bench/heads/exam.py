"""An exam: documents of one length as tensors, and the questions that are asked of each."""

from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.examiner import Sheet
from training.scoring import is_exact
from training.tokenizer import ANSWER_ID, DOCUMENT_ID, END_ID, QUESTION_ID

SPARE_TOKENS = 4  # an answer this much longer than the longest right one cannot be exact


@dataclass(frozen=True)
class Batch:
    """Rows of token ids, each padded on its right.

    Attributes:
        ids: (rows, longest) int64.
        sizes: (rows,) int64, tokens of each row.
    """

    ids: Tensor
    sizes: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""
        return Batch(self.ids.to(device), self.sizes.to(device))


@dataclass(frozen=True)
class Exam:
    """Documents and questions.

    Attributes:
        documents: a row a document, with its first special token.
        turns: a row a question, the documents' questions one after another, as many of each.
        expected: a right answer a question.
        max_tokens: of an answer.
    """

    documents: Batch
    turns: Batch
    expected: tuple[str, ...]
    max_tokens: int

    def right(self, answers: list[str]) -> list[bool]:
        """Which answers are exact."""
        return [is_exact(*pair) for pair in zip(answers, self.expected, strict=True)]


def load_tokenizer(weights: Path) -> Tokenizer:
    """The tokenizer of a reader's folder."""
    return Tokenizer.from_file(str(weights / "tokenizer.json"))


def make_exam(asked: list[Sheet], tokenizer: Tokenizer, device: torch.device) -> Exam:
    """Tokenize documents and questions as in serving; all documents must ask equally many."""

    def encode(texts: list[str]) -> list[list[int]]:
        return [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False)]

    questions = [question for document in asked for question in document.questions]
    documents = [[DOCUMENT_ID, *ids] for ids in encode([document.text for document in asked])]
    turns = [[QUESTION_ID, *ids, ANSWER_ID] for ids in encode([one.text for one in questions])]
    expected = tuple(one.answer for one in questions)
    longest = max(map(len, encode(list(expected))))
    return Exam(
        _batch(documents).to(device), _batch(turns).to(device), expected, longest + SPARE_TOKENS
    )


def _batch(rows: list[list[int]]) -> Batch:
    sizes = torch.tensor([len(row) for row in rows])
    ids = torch.full((len(rows), int(sizes.max())), END_ID)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
    return Batch(ids, sizes)
