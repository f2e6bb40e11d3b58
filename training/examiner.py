"""The examiner: sheets of questions about documents that the reader has never seen."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from tokenizers import Tokenizer

from common.errors import InvalidInput
from training.cells import SEEN, Cell
from training.data.documents import Composer, Encoder, Sources, weave
from training.data.facts import Chunk, Question
from training.data.feed import vocabulary_of
from training.data.haystack import BoundaryTable
from training.data.natural import Article, load_squad
from training.data.split import HELD_OUT_BOOKS
from training.decode import answer, read
from training.model import Reader
from training.prepare import read_books, tokenize_all
from training.scoring import Mark, mark
from training.tokenizer import DOCUMENT_ID

QUESTIONS_A_DOCUMENT = 20
QUESTIONS_A_PARAGRAPH = 4
MAX_TOKENS = 160  # of an answer; four hashes in a list take 137


@dataclass(frozen=True)
class Sheet:
    """A document's text and questions about it."""

    text: str
    questions: tuple[Question, ...]


class Examiner:
    """Makes sheets and marks the reader's answers.

    Args:
        sources: haystacks that were never trained on.
    """

    def __init__(self, reader: Reader, tokenizer: Tokenizer, sources: Sources) -> None:
        self._reader, self._tokenizer = reader, tokenizer
        self._encoder = Encoder(tokenizer)
        self._composer = Composer(self._encoder, sources, SEEN)

    def planted(self, cell: Cell, length: int, rng: Random) -> Sheet:
        """A document of about `length` tokens with facts planted in it."""
        chunks: list[Chunk] = []
        questions: list[Question] = []
        claimed: set[str] = set()
        while len(questions) < QUESTIONS_A_DOCUMENT:
            plant = cell.make(rng)
            if not claimed & plant.claims:
                claimed |= plant.claims
                chunks.extend(plant.chunks)
                questions.extend(one for one in plant.questions if one.kind in cell.kinds)
        rng.shuffle(questions)
        pieces = self._encoder.chunks(chunks)
        room = length - 1 - sum(len(piece.ids) for piece in pieces)
        ids = weave(self._composer.haystack(max(room, 200), rng), pieces, rng)
        return Sheet(self._encoder.text(ids), tuple(questions[:QUESTIONS_A_DOCUMENT]))

    def mark(self, sheet: Sheet) -> list[Mark]:
        """Ask every question directly after the document, greedily, and mark the answers."""
        given = self.answers(sheet.text, [question.text for question in sheet.questions])
        return [mark(*pair) for pair in zip(sheet.questions, given, strict=True)]

    def answers(self, document: str, questions: Sequence[str]) -> list[str]:
        """Greedy answers; the text is tokenized as in serving."""
        ids = [DOCUMENT_ID, *self._encoder.texts([document])[0]]
        found = answer(
            self._reader, read(self._reader, ids), self._encoder.texts(questions), MAX_TOKENS
        )
        return [self._tokenizer.decode(one) for one in found]


@dataclass(frozen=True)
class Natural:
    """SQuAD's articles on the side of the split that is never trained on."""

    file: Path

    @cached_property
    def articles(self) -> list[Article]:
        """The articles, read once."""
        return load_squad(self.file, held_out=True)

    def paragraph(self, rng: Random) -> Sheet:
        """A paragraph alone, and questions about it."""
        while len((passage := rng.choice(rng.choice(self.articles).passages)).questions) < (
            QUESTIONS_A_PARAGRAPH
        ):
            pass
        return Sheet(passage.text, _asked(passage.questions, QUESTIONS_A_PARAGRAPH, rng))

    def article(self, rng: Random) -> Sheet:
        """A whole article, and questions about any of its paragraphs."""
        passages = rng.choice(self.articles).passages
        pairs = [pair for passage in passages for pair in passage.questions]
        text = "\n".join(passage.text for passage in passages)
        return Sheet(text, _asked(pairs, QUESTIONS_A_DOCUMENT, rng))


def shipped(folder: Path) -> Sheet:
    """A document that is shipped with the reader, and its questions.

    Args:
        folder: holds a Markdown file and questions.json.
    """
    (text,) = (file.read_text() for file in folder.glob("*.md"))
    pairs = json.loads((folder / "questions.json").read_text())
    return Sheet(text, tuple(Question(one["question"], one["answer"], "shipped") for one in pairs))


def held_out_sources(data: Path, tokenizer: Tokenizer) -> Sources:
    """The books that are kept for evaluation.

    Raises: InvalidInput if the folder holds none of them.
    """
    books = {name: text for name, text in read_books(data).items() if name in HELD_OUT_BOOKS}
    if not books:
        raise InvalidInput(f"'{data / 'books'}' holds none of {', '.join(HELD_OUT_BOOKS)}.")
    table = BoundaryTable(vocabulary_of(tokenizer))
    ids = tokenize_all(tokenizer, books)
    return Sources([table.haystack(name, ids[name]) for name in books], [1.0] * len(books), [])


def _asked(pairs: Sequence[tuple[str, str]], most: int, rng: Random) -> tuple[Question, ...]:
    drawn = rng.sample(pairs, min(most, len(pairs)))
    return tuple(Question(text, answer, "natural") for text, answer in drawn)
