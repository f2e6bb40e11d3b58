"""Asks many questions about one document in the same decoding steps, as a server would."""

from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import LecternError
from engine.decode.answer import Answer
from engine.decode.running_answer import RunningAnswer
from engine.decode.sampling import Sampling
from engine.document.budget import Budget
from engine.document.cache import DocumentCache
from engine.engine import Engine

ROWS = 32  # answers of a decoding step


@dataclass(frozen=True)
class Asked:
    """One question about a document, and how it is answered."""

    document: DocumentCache
    question: str
    budget: Budget
    sampling: Sampling


def ask_all(engine: Engine, asked: Sequence[Asked]) -> list[Answer]:
    """Answer questions together: what each one answers is what it answers alone.

    Raises: what the engine raises for one of them.
    """
    answers: list[Answer] = []
    for start in range(0, len(asked), ROWS):
        answers += _ask_batch(engine, asked[start : start + ROWS])
    return answers


def _ask_batch(engine: Engine, asked: Sequence[Asked]) -> list[Answer]:
    rows: list[RunningAnswer] = []
    try:
        for one in asked:
            row = engine.start(one.document, one.question, budget=one.budget, sampling=one.sampling)
            rows.append(row)
            while row.num_next_chunk > 0:
                _step(engine, [row])
        while decoding := [row for row in rows if not row.is_finished]:
            _step(engine, decoding)
        for row in rows:
            row.flush()
    finally:
        for row in rows:
            engine.finish(row)
    return [row.result() for row in rows]


def _step(engine: Engine, rows: Sequence[RunningAnswer]) -> None:
    for found in engine.step(rows):
        if isinstance(found, LecternError):
            raise found
