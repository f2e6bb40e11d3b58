"""A model as it is served: reads documents and answers questions by the engine, and is scored."""

from dataclasses import replace
from pathlib import Path

from engine.config import ModelConfig
from engine.decode.answer import Answer
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import DEFAULT_PLAN, LoadedModel, load_model
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from training.data.facts import Question
from training.eval_set import EvalDocument
from training.scoring import Score, score

MAX_TOKENS = 160  # of an answer; four hashes in a list take 137


def settings_for(budget: float) -> PrecomputeConfig:
    """The settings of documents that are only asked at one budget: the default ones.

    At `exact` nothing is looked up, so that calibration, a third and more of the reading on a CPU,
    is cut to one probe.
    """
    return PrecomputeConfig() if budget < EXACT else replace(PrecomputeConfig(), num_probes=1)


class Evaluator:
    """Reads documents, under default settings unless others are given, and answers greedily.

    Args:
        weights: the model's folder.
        device: "cpu", "cuda", "cuda:N" or "auto".
        heads: a head plan's file, "all", or "default" for the plan in the model's folder.
        settings: how documents are read.
        max_tokens: of an answer.
    Raises: UnsupportedModel or HeadPlanRejected, as `engine.model.load_model`.
    """

    def __init__(
        self,
        weights: Path,
        *,
        device: str,
        heads: str = DEFAULT_PLAN,
        settings: PrecomputeConfig = PrecomputeConfig(),
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        config = ModelConfig(str(weights), device=device, heads=heads)
        self.model: LoadedModel = load_model(config)
        self._engine = Engine(self.model)
        self._settings, self._sampling = settings, Sampling(max_tokens=max_tokens)

    def read(self, text: str) -> DocumentCache:
        """Read a document once for all of its questions.

        Raises: DocumentTooLong if the model's context does not hold it.
        """
        pages = [(1, 0, len(text))]
        return precompute_document(self.model, text, pages, self._settings, lambda *_: None)

    def ask(
        self, document: DocumentCache, question: Question, budget: float
    ) -> tuple[Answer, Score]:
        """Answer a question at a budget in (0, 1] and score the answer."""
        *_, last = self._engine.answer(
            document, question.text, budget=budget, sampling=self._sampling
        )
        if not isinstance(last, Answer):
            raise RuntimeError("the engine ended without an answer")
        return last, score(question, last.text, last.budget.loaded)

    def score(self, document: EvalDocument, budget: float) -> list[Score]:
        """Read a document and score the answers to all of its questions; its cache is dropped."""
        cache = self.read(document.text)
        return [self.ask(cache, question, budget)[1] for question in document.questions]
