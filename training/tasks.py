"""What is to be measured of the reader: cells, lengths, and the documents that they take."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import InvalidInput
from reader import HANDBOOK
from training.cells import ARTICLE, OWN, PARAGRAPH, cells
from training.data.split import HELD_OUT_BOOKS
from training.examiner import QUESTIONS_A_DOCUMENT, QUESTIONS_A_PARAGRAPH

FOLDER = Path(__file__).parent


@dataclass(frozen=True, order=True)
class Task:
    """One document to be examined: the how-manieth of a cell at a length."""

    length: int
    cell: str
    number: int


@dataclass(frozen=True)
class Plan:
    """What is to be measured.

    Attributes:
        cells: names, or none for all.
        lengths: in tokens, or none for all.
        questions: at least, in each cell.
        theta: rotary base, if not the weights' own.
        workers: processes, spread over the GPUs.
        goes_on: keep the rows that an earlier run with the same settings has written.
    """

    weights: Path
    data: Path
    device: str
    cells: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    questions: int = 200
    seed: int = 1
    theta: float | None = None
    workers: int = 1
    goes_on: bool = False

    def tasks(self) -> list[Task]:
        """All documents, the longest first.

        Raises: InvalidInput if there are none, or a cell or length is none of the table's.
        """
        planted = [(cell.name, length, QUESTIONS_A_DOCUMENT) for cell in cells()
                   for length in cell.lengths]  # fmt: skip
        natural = [(PARAGRAPH, OWN, QUESTIONS_A_PARAGRAPH), (ARTICLE, OWN, QUESTIONS_A_DOCUMENT)]
        own = [(folder.name, OWN, self.questions) for folder in shipped_folders()]
        known = (*planted, *natural, *own)
        _check("cell", self.cells, [name for name, _, _ in known])
        _check("length", self.lengths, [length for _, length, _ in known])
        tasks = [
            Task(length, name, number)
            for name, length, most in known
            if name in (self.cells or (name,)) and length in (self.lengths or (length,))
            for number in range(-(-self.questions // most))
        ]
        if not tasks:
            raise InvalidInput("None of these cells is examined at any of these lengths.")
        return sorted(tasks, key=lambda task: (-task.length, task.cell, task.number))


def check_data(folder: Path) -> None:
    """Make sure that the held-out books and SQuAD are there.

    Raises: InvalidInput that names what is missing.
    """
    wanted = ["squad/train-v1.1.json.gz", *(f"books/{name}.txt.gz" for name in HELD_OUT_BOOKS)]
    missing = [name for name in wanted if not (folder / name).is_file()]
    if missing:
        raise InvalidInput(
            f"'{folder}' lacks {', '.join(missing)}; the model card says where they are from."
        )


def shipped_folders() -> list[Path]:
    """Folders of the documents with questions that the reader is examined on."""
    return [HANDBOOK, FOLDER / "manual"]


def _check(noun: str, given: Sequence[Any], known: Sequence[Any]) -> None:
    """Raises: InvalidInput for what is not among what is known."""
    for one in given:
        if one not in known:
            listed = ", ".join(str(other) for other in dict.fromkeys(known))
            raise InvalidInput(f"The table has no {noun} '{one}'; it has: {listed}.")
