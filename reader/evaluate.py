"""Measure the reader: greedy free-running answers, exact match with 95 % Wilson intervals.

    python -m reader.evaluate --weights reader/weights --data DIR --out bench/results/reader.json

Documents are made of the four books that neither the tokenizer nor the model has seen; names of
persons, places and things come from the side of the split that training never draws. DIR holds
`books/` and, for the natural questions, `squad/`.
"""

import argparse
import json
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import tokenizers
import torch
from tokenizers import Tokenizer

from reader.data import plants
from reader.data.documents import Composer, Encoder, Sources, weave
from reader.data.feed import vocabulary_of
from reader.data.haystack import BoundaryTable
from reader.data.natural import load_squad
from reader.data.plants import Chunk, Plant, Question
from reader.data.speech import Voice
from reader.data.split import HELD_OUT_BOOKS
from reader.data.wordings import REFUSAL
from reader.decode import answer, read
from reader.model import Reader
from reader.prepare import read_books, tokenize_all
from reader.tokenizer import DOCUMENT_ID
from reader.weights import load_weights

QUESTIONS_A_DOCUMENT = 20
_MAX_TOKENS = 90
# Wordings as in training, names that training never drew; and wordings that it never used either.
_SEEN = Voice(wordings="train", held_out=True, refusals=0.0, extras=0.0)
_HELD_OUT = replace(_SEEN, wordings="held_out")
PlantMaker = Callable[[Random], Plant]


@dataclass(frozen=True)
class Cell:
    """One row of the table: what is planted and which of its questions count."""

    name: str
    make: PlantMaker
    kinds: tuple[str, ...]
    lengths: tuple[int, ...] = (16_384,)


@dataclass(frozen=True)
class Score:
    """How often the answer was right, and how often it was a false refusal."""

    cell: str
    length: int
    num_questions: int
    num_right: int
    num_refused: int

    def row(self) -> dict[str, Any]:
        """As a JSON object."""
        low, high = wilson(self.num_right, self.num_questions)
        return {
            "cell": self.cell,
            "document_tokens": self.length,
            "questions": self.num_questions,
            "exact_match": round(self.num_right / max(1, self.num_questions), 4),
            "interval_95": [round(low, 4), round(high, 4)],
            "refused": round(self.num_refused / max(1, self.num_questions), 4),
        }


def wilson(right: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval for a share; (0, 1) without questions."""
    if total == 0:
        return 0.0, 1.0
    share = right / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    spread = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    spread /= 1 + z * z / total
    return max(0.0, middle - spread), min(1.0, middle + spread)


def normalise(text: str) -> str:
    """Case, runs of whitespace and a final full stop do not count."""
    return " ".join(text.lower().split()).rstrip(".").rstrip()


def single_plants(voice: Voice) -> PlantMaker:
    """Facts of their own."""
    return lambda rng: plants.plant_single(rng, voice)


def cells() -> tuple[Cell, ...]:
    """The table's rows: the bars first, then what shows the limits."""
    bars, missing = (4096, 16_384, 32_768), replace(_SEEN, refusals=1.0)

    def near_misses(rng: Random) -> Plant:
        makers: tuple[PlantMaker, ...] = (
            lambda rng: plants.plant_single(rng, missing),
            lambda rng: plants.plant_crowd(rng, missing, rng.randint(2, 8)),
            lambda rng: plants.plant_portrait(rng, missing, rng.randint(2, 6)),
            lambda rng: plants.plant_scene(rng, missing),
        )
        return rng.choice(makers)(rng)

    def crowd(least: int, most: int, voice: Voice = _SEEN) -> PlantMaker:
        return lambda rng: plants.plant_crowd(rng, voice, rng.randint(least, most))

    return (
        Cell("single", single_plants(_SEEN), ("single",), bars),
        Cell("same attribute", crowd(2, 8), ("same attribute",), bars),
        Cell("same entity", lambda rng: plants.plant_portrait(rng, _SEEN, rng.randint(2, 8)),
             ("same entity",), bars),
        Cell("unanswerable", near_misses, ("unanswerable",), bars),
        Cell("single, held-out wordings", single_plants(_HELD_OUT), ("single",)),
        Cell("same attribute, held-out wordings", crowd(2, 8, _HELD_OUT), ("same attribute",)),
        Cell("same entity, held-out wordings",
             lambda rng: plants.plant_portrait(rng, _HELD_OUT, rng.randint(2, 8)),
             ("same entity",)),
        Cell("rules and events", lambda rng: plants.plant_scene(rng, _SEEN), ("scene",)),
        Cell("crowd of 32", crowd(32, 32), ("crowd",)),
        Cell("two hop", lambda rng: plants.plant_two_hop(rng, _SEEN), ("two hop",)),
        Cell("pass phrase, 1 to 8 words",
             lambda rng: plants.plant_pass_phrase(rng, _SEEN, rng.randint(1, 8)), ("pass phrase",)),
        Cell("pass phrase, 32 words", lambda rng: plants.plant_pass_phrase(rng, _SEEN, 32),
             ("pass phrase",)),
        Cell("list", lambda rng: plants.plant_list(rng, _SEEN), ("list",)),
        Cell("table", lambda rng: plants.plant_table(rng, _SEEN), ("table",)),
        Cell("assignment", lambda rng: plants.plant_config(rng, _SEEN), ("assignment",)),
        Cell("chain of two", lambda rng: plants.plant_config(rng, _SEEN), ("chain",)),
        Cell("two keys",
             lambda rng: plants.plant_crowd(rng, replace(_SEEN, extras=1.0), rng.randint(2, 8)),
             ("two keys",)),
    )  # fmt: skip


class Examiner:
    """Makes documents of an exact length and scores the reader's answers."""

    def __init__(self, reader: Reader, tokenizer: Tokenizer, sources: Sources) -> None:
        self._reader, self._tokenizer = reader, tokenizer
        self._encoder = Encoder(tokenizer)
        self._composer = Composer(self._encoder, sources, _SEEN)

    def score(self, cell: Cell, length: int, num_questions: int, seed: int) -> Score:
        """Ask at least num_questions of one cell; every question comes first after its document."""
        rng, asked, right, refused = Random(f"{cell.name} {length} {seed}"), 0, 0, 0
        while asked < num_questions:
            document, questions = self.document(cell, length, rng)
            given = self.answers(document, [question.text for question in questions])
            for question, text in zip(questions, given, strict=True):
                asked += 1
                right += normalise(text) == normalise(question.answer)
                refused += normalise(text) == normalise(REFUSAL)
        return Score(cell.name, length, asked, right, refused)

    def document(self, cell: Cell, length: int, rng: Random) -> tuple[str, list[Question]]:
        """A document of about `length` tokens and the questions that count."""
        chunks: list[Chunk] = []
        questions: list[Question] = []
        while len(questions) < QUESTIONS_A_DOCUMENT:
            plant = cell.make(rng)
            chunks.extend(plant.chunks)
            questions.extend(one for one in plant.questions if one.kind in cell.kinds)
        rng.shuffle(questions)
        pieces = self._encoder.chunks(chunks)
        room = length - 1 - sum(len(piece.ids) for piece in pieces)
        ids = weave(self._composer.haystack(max(room, 200), rng), pieces, rng)
        return self._tokenizer.decode(ids.tolist()), questions[:QUESTIONS_A_DOCUMENT]

    def answers(self, document: str, questions: list[str]) -> list[str]:
        """Greedy answers; the text is tokenized as in serving."""
        ids = [DOCUMENT_ID, *self._encoder.texts([document])[0]]
        found = answer(
            self._reader, read(self._reader, ids), self._encoder.texts(questions), _MAX_TOKENS
        )
        return [self._tokenizer.decode(one) for one in found]

    def natural(self, data: Path, num_questions: int, seed: int) -> Iterator[Score]:
        """SQuAD articles never trained on: the paragraph alone, and its whole article."""
        articles = load_squad(data / "squad" / "train-v1.1.json.gz", held_out=True)
        for name, is_alone in (("SQuAD, paragraph alone", True), ("SQuAD, whole article", False)):
            rng, asked, right, refused = Random(f"{name} {seed}"), 0, 0, 0
            while asked < num_questions:
                article = rng.choice(articles)
                passage = rng.choice(article.passages)
                texts = [passage.text] if is_alone else [one.text for one in article.passages]
                pairs = passage.questions[:5]
                given = self.answers("\n".join(texts)[:120_000], [text for text, _ in pairs])
                asked += len(pairs)
                right += sum(
                    normalise(text) == normalise(pair[1])
                    for text, pair in zip(given, pairs, strict=True)
                )
                refused += sum(normalise(text) == normalise(REFUSAL) for text in given)
            yield Score(name, 0, asked, right, refused)


def held_out_sources(data: Path, tokenizer: Tokenizer) -> Sources:
    """The books that are kept for evaluation."""
    books = {name: text for name, text in read_books(data).items() if name in HELD_OUT_BOOKS}
    table = BoundaryTable(vocabulary_of(tokenizer))
    ids = tokenize_all(tokenizer, books)
    return Sources([table.haystack(name, ids[name]) for name in books], [1.0] * len(books), [])


def evaluate(options: argparse.Namespace) -> dict[str, Any]:
    """Score all cells; print and write the table as it grows."""
    device = options.device
    reader = load_weights(options.weights).to(device)
    reader = reader.bfloat16() if device == "cuda" else reader
    tokenizer = Tokenizer.from_file(str(options.weights / "tokenizer.json"))
    examiner = Examiner(reader, tokenizer, held_out_sources(options.data, tokenizer))
    result: dict[str, Any] = {"about": _about(options), "rows": []}
    for score in _scores(examiner, options):
        result["rows"].append(score.row())
        print(_line(result["rows"][-1]), flush=True)
        write_result(result, options.out)  # a run that is cut off keeps what it has
    return result


def _scores(examiner: Examiner, options: argparse.Namespace) -> Iterator[Score]:
    for cell in cells():
        for length in cell.lengths:
            if length <= options.longest and not (options.bars and len(cell.lengths) == 1):
                yield examiner.score(cell, length, options.questions, options.seed)
    if not options.bars:
        yield from examiner.natural(options.data, options.questions, options.seed)


def write_result(result: dict[str, Any], file: Path) -> None:
    """Write the table as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")


def _line(row: dict[str, Any]) -> str:
    low, high = row["interval_95"]
    return (
        f"{row['cell']:36} {row['document_tokens']:6} n={row['questions']:4} "
        f"{row['exact_match']:.3f} [{low:.3f}, {high:.3f}] refused {row['refused']:.3f}"
    )


def _about(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "program": "python -m reader.evaluate",
        "decoding": "greedy, free-running; one question directly after the document",
        "measure": "exact match after case, whitespace and a final full stop",
        "books": list(HELD_OUT_BOOKS),
        "seed": options.seed,
        "questions_a_document": QUESTIONS_A_DOCUMENT,
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "machine": platform.machine(),
        "commit": _commit(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "tokenizers": tokenizers.__version__,
            "numpy": np.__version__,
        },
        "dtype": "bfloat16" if options.device == "cuda" else "float32",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _commit() -> str:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def main() -> None:
    """Parse the command line, evaluate, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, default=Path(__file__).parent / "weights")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--questions", type=int, default=200, help="at least, in each cell")
    parser.add_argument("--longest", type=int, default=32_768, help="leave out longer documents")
    parser.add_argument("--bars", action="store_true", help="only the rows that have a bar")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    evaluate(options)


if __name__ == "__main__":
    main()
