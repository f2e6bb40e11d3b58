"""Documents with planted facts that the reader has never seen, for measuring accuracy."""

from dataclasses import replace
from pathlib import Path
from random import Random

from tokenizers import Tokenizer

from training.cells import cells
from training.examiner import Examiner, Sheet, held_out_sources
from training.weights import load_weights

KINDS = ("single", "same attribute", "same entity")


def draw_documents(
    data: Path, weights: str, *, num_tokens: int, count: int, questions: int, seed: int = 7
) -> list[Sheet]:
    """Draw documents from held-out books with facts about held-out entities planted in them.

    Args:
        data: folder of the books, as for `training.evaluate`.
        weights: the reader's folder.
        num_tokens: length of each document, the template's head included.
        questions: asked of each document, of one kind; the documents take the kinds in turn.
    """
    tokenizer = Tokenizer.from_file(f"{weights}/tokenizer.json")
    examiner = Examiner(load_weights(Path(weights)), tokenizer, held_out_sources(data, tokenizer))
    wanted = [cell for cell in cells() if cell.name in KINDS]
    sheets = [
        examiner.planted(wanted[index % len(wanted)], num_tokens, Random(f"{seed} {index}"))
        for index in range(count)
    ]
    return [replace(sheet, questions=sheet.questions[:questions]) for sheet in sheets]
