"""The documents that are shipped with the reader, read and asked as a server does it.

python -m bench.invented

The demo's handbook and a manual of another kind: neither shares a name, a figure or a wording with
the training data.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.record import circumstances, write
from engine.config import ModelConfig
from engine.decode.running_answer import Answer
from engine.decode.sampling import Sampling
from engine.document.artifact import pack, unpack
from engine.document.budget import NAMES
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel, load_model
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from reader import WEIGHTS
from training.examiner import Sheet, shipped
from training.scoring import is_exact
from training.tasks import shipped_folders

BUDGETS = ("balanced", "exact")


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=str(WEIGHTS))
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    model = load_model(ModelConfig(options.model, device=options.device))
    result = {
        "benchmark": "invented",
        **circumstances(options.device),
        "documents": {folder.name: examine(model, folder) for folder in shipped_folders()},
    }
    print(write("invented", result).read_text())


def examine(model: LoadedModel, folder: Path) -> dict[str, Any]:
    """Read a document, store and load it, and ask its questions at each budget."""
    sheet = shipped(folder)
    document = stored(model, sheet.text)
    by_budget = {name: list(ask(model, document, sheet, NAMES[name])) for name in BUDGETS}
    return {
        "document_tokens": document.num_tokens,
        **{
            name: {"right": sum(one["right"] for one in answers), "asked": answers}
            for name, answers in by_budget.items()
        },
    }


def stored(model: LoadedModel, text: str) -> DocumentCache:
    """The document as it comes back from its artifact."""
    settings = PrecomputeConfig()
    read = precompute_document(model, text, [(1, 0, len(text))], settings, lambda *_: None)
    manifest, files = pack(read, settings.dtype)
    return unpack(manifest, files, device=model.device, dtype=model.dtype)


def ask(
    model: LoadedModel, document: DocumentCache, sheet: Sheet, budget: float
) -> Iterator[dict[str, Any]]:
    """Each question with its answers."""
    for question in sheet.questions:
        *_, last = answer(model, document, question.text, budget=budget, sampling=Sampling())
        assert isinstance(last, Answer)
        yield {
            "question": question.text,
            "expected": question.answer,
            "given": last.text,
            "right": is_exact(last.text, question.answer),
            "loaded": last.budget.loaded,
        }


if __name__ == "__main__":
    main()
