"""Documents with planted facts that the reader has never seen, for measuring accuracy."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from tokenizers import Tokenizer

from reader.data.plants import Question
from reader.evaluate import Examiner, cells, held_out_sources, normalise
from reader.weights import load_weights

KINDS = ("single", "same attribute", "same entity")


@dataclass(frozen=True)
class AskedDocument:
    """A document's text, and questions that it answers."""

    text: str
    questions: tuple[Question, ...]


def draw_documents(
    data: Path, weights: str, *, num_tokens: int, count: int, questions: int, seed: int = 7
) -> list[AskedDocument]:
    """Draw documents from held-out books with facts about held-out entities planted in them.

    Args:
        data: folder of the books, as for `reader.evaluate`.
        weights: the reader's folder.
        num_tokens: length of each document, the template's head included.
        questions: asked of each document, the kinds in turn.
    """
    tokenizer = Tokenizer.from_file(f"{weights}/tokenizer.json")
    examiner = Examiner(load_weights(Path(weights)), tokenizer, held_out_sources(data, tokenizer))
    wanted = [cell for cell in cells() if cell.name in KINDS]
    documents = []
    for index in range(count):
        cell = wanted[index % len(wanted)]
        text, asked = examiner.document(cell, num_tokens, Random(f"{seed} {index}"))
        documents.append(AskedDocument(text, tuple(asked[:questions])))
    return documents


def is_exact(given: str, expected: str) -> bool:
    """Whether two answers agree but for case, white space and a final full stop."""
    return normalise(given) == normalise(expected)
