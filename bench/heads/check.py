"""The exam against the product: no figure is given unless both answer alike."""

from collections.abc import Sequence

from tokenizers import Tokenizer

from bench.heads.exam import make_exam
from bench.heads.sitting import sit
from engine.decode.running_answer import Answer
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel, assemble
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from training.examiner import Sheet
from training.model import Reader


def differing_answers(
    model: LoadedModel, reader: Reader, tokenizer: Tokenizer, asked: Sheet
) -> list[tuple[str, str]]:
    """Answers of the exam and of the engine at budget `exact`, where they differ.

    Args:
        model: as the engine serves it, with the plan under test.
        reader: the same weights, on the same device and of the same dtype.
    """
    exam = make_exam([asked], tokenizer, model.device)
    settings, pages = PrecomputeConfig(num_probes=1), [(1, 0, len(asked.text))]
    document = precompute_document(model, asked.text, pages, settings, lambda *_: None)
    theirs = _answers(model, document, [one.text for one in asked.questions], exam.max_tokens)
    pairs = zip(sit(reader, exam, model.plan, tokenizer), theirs, strict=True)
    return [(ours, engine) for ours, engine in pairs if ours.strip() != engine.strip()]


def with_plan(model: LoadedModel, plan: HeadPlan) -> LoadedModel:
    """The model with its heads in a plan's order; the one given, of all heads, is used up."""
    return assemble(
        model.model,
        model.tokenizer,
        name=model.name,
        fingerprint=model.fingerprint,
        weights=model.weights,
        plan=plan,
    )


def _answers(
    model: LoadedModel, document: DocumentCache, questions: Sequence[str], max_tokens: int
) -> list[str]:
    texts = []
    for question in questions:
        sampling = Sampling(max_tokens=max_tokens)
        *_, last = answer(model, document, question, budget=EXACT, sampling=sampling)
        texts.append(last.text if isinstance(last, Answer) else "")
    return texts
