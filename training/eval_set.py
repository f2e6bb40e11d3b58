"""The documents and questions of an evaluation: none of their names and books was trained on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random

from tokenizers import Tokenizer

from common.errors import InvalidInput
from reader import HANDBOOK
from training.data.batch_loader import vocabulary_of
from training.data.documents import Composer, Encoder, Sources, insert_chunks
from training.data.facts import Chunk, Question
from training.data.haystack import BoundaryTable
from training.data.natural import Article, load_squad
from training.data.split import HELD_OUT_BOOKS
from training.eval_tasks import (
    ARTICLE,
    PARAGRAPH,
    SEEN,
    EvalTask,
    eval_tasks,
    release_tasks,
)
from training.prepare import read_books, tokenize_all

QUESTIONS_A_DOCUMENT = 20
QUESTIONS_A_PARAGRAPH = 4
# Documents with questions in words of their own; their questions.json stands beside the text.
FICTIONAL = (HANDBOOK, Path(__file__).parent / "fictional" / "manual")
_SQUAD = Path("squad", "train-v1.1.json.gz")


@dataclass(frozen=True)
class EvalDocument:
    """A document's text and questions about it."""

    text: str
    questions: tuple[Question, ...]


@dataclass(frozen=True, order=True)
class DocumentKey:
    """One document of the set.

    Attributes:
        length: in tokens; `OWN_LENGTH` where the document is as long as it is.
        task: its name.
        number: counts the documents of this task and length.
    """

    length: int
    task: str
    number: int


class EvalSet:
    """Draws documents, each from its key and the seed alone.

    Args:
        tokenizer_file: says how long documents are.
        data: holds books/ and squad/.
    Raises: InvalidInput if no held-out book is there.
    """

    def __init__(self, tokenizer_file: Path, data: Path, seed: int = 1) -> None:
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self._encoder = Encoder(tokenizer)
        self._composer = Composer(self._encoder, held_out_sources(data, tokenizer), SEEN)
        self._tasks = {task.name: task for task in (*eval_tasks(), *release_tasks())}
        self._squad, self._seed = data / _SQUAD, seed

    def document(self, key: DocumentKey) -> EvalDocument:
        """The document of a key."""
        rng = Random(f"{key.task} {key.length} {key.number} {self._seed}")
        if key.task in self._tasks:
            return self.needle_document(self._tasks[key.task], key.length, rng)
        if key.task == PARAGRAPH:
            return self._paragraph(rng)
        if key.task == ARTICLE:
            return self._article(rng)
        return read_fictional(next(folder for folder in FICTIONAL if folder.name == key.task))

    def mixed(
        self, names: Sequence[str], *, num_tokens: int, count: int, questions: int
    ) -> list[EvalDocument]:
        """Documents of one length that take their needles from several tasks in turn.

        Args:
            questions: of each document.
        """
        drawn = (
            self.needle_document(
                self._tasks[names[number % len(names)]],
                num_tokens,
                Random(f"{self._seed} {number}"),
                max(questions, QUESTIONS_A_DOCUMENT),
            )
            for number in range(count)
        )
        return [replace(one, questions=one.questions[:questions]) for one in drawn]

    def needle_document(
        self, task: EvalTask, num_tokens: int, rng: Random, count: int = QUESTIONS_A_DOCUMENT
    ) -> EvalDocument:
        """A document of about so many tokens, the prompt's included, with needles of a task.

        Args:
            count: of its questions.
        """
        chunks: list[Chunk] = []
        questions: list[Question] = []
        claimed: set[str] = set()
        while len(questions) < count:
            needle = task.make(rng)
            if not claimed & needle.claims:
                claimed |= needle.claims
                chunks.extend(needle.chunks)
                questions.extend(one for one in needle.questions if one.kind in task.kinds)
        rng.shuffle(questions)
        tokenized = self._encoder.chunks(chunks)
        room = num_tokens - 1 - sum(len(chunk.ids) for chunk in tokenized)
        ids = insert_chunks(self._composer.haystack(max(room, 200), rng), tokenized, rng)
        return EvalDocument(self._encoder.text(ids), tuple(questions[:count]))

    @cached_property
    def articles(self) -> list[Article]:
        """SQuAD's articles on the side of the split that is never trained on."""
        return load_squad(self._squad, held_out=True)

    def _paragraph(self, rng: Random) -> EvalDocument:
        """A paragraph alone, and questions about it."""
        while len((passage := rng.choice(rng.choice(self.articles).passages)).questions) < (
            QUESTIONS_A_PARAGRAPH
        ):
            pass
        return EvalDocument(passage.text, _ask(passage.questions, QUESTIONS_A_PARAGRAPH, rng))

    def _article(self, rng: Random) -> EvalDocument:
        """A whole article, and questions about any of its paragraphs."""
        passages = rng.choice(self.articles).passages
        pairs = [pair for passage in passages for pair in passage.questions]
        text = "\n".join(passage.text for passage in passages)
        return EvalDocument(text, _ask(pairs, QUESTIONS_A_DOCUMENT, rng))


def read_fictional(folder: Path) -> EvalDocument:
    """A document with questions of its own.

    Args:
        folder: holds a Markdown file and questions.json.
    """
    (text,) = (file.read_text(encoding="utf-8") for file in folder.glob("*.md"))
    pairs = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    questions = (Question(one["question"], one["answer"], "fictional") for one in pairs)
    return EvalDocument(text, tuple(questions))


def held_out_sources(data: Path, tokenizer: Tokenizer) -> Sources:
    """The books that are kept for evaluation.

    Raises: InvalidInput if the folder holds none of them.
    """
    books = read_books(data, HELD_OUT_BOOKS)
    if not books:
        raise InvalidInput(f"'{data / 'books'}' holds none of {', '.join(HELD_OUT_BOOKS)}.")
    table = BoundaryTable(vocabulary_of(tokenizer))
    ids = tokenize_all(tokenizer, books)
    return Sources([table.haystack(name, ids[name]) for name in books], [1.0] * len(books), [])


def check_data(data: Path) -> None:
    """Make sure that the held-out books and SQuAD are there.

    Raises: InvalidInput that names what is missing.
    """
    wanted = [str(_SQUAD), *(f"books/{name}.txt.gz" for name in HELD_OUT_BOOKS)]
    if missing := [name for name in wanted if not (data / name).is_file()]:
        raise InvalidInput(
            f"'{data}' lacks {', '.join(missing)}; the model card says where they are from."
        )


def _ask(pairs: Sequence[tuple[str, str]], most: int, rng: Random) -> tuple[Question, ...]:
    drawn = rng.sample(pairs, min(most, len(pairs)))
    return tuple(Question(text, answer, "natural") for text, answer in drawn)
