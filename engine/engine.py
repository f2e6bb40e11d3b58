"""The engine: it owns a loaded model, its decode graphs and its memory, and answers questions.

An answer is taken step by step: one forward pass a step, the question's prefill first, then a token
at a time. `Engine.answer` is the loop over one question's steps.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Self

import torch
from torch import Tensor

from common.errors import Cancelled, EmptyQuestion, QuestionTooLong
from engine.config import DecodeConfig
from engine.decode.graph_pool import DecodeGraphPool
from engine.decode.running_answer import Answer, RunningAnswer, TextDelta
from engine.decode.sampling import Sampling
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel


def _never() -> bool:
    return False


class Engine:
    """Answers questions about documents with one model.

    Args:
        model: the loaded model; the engine owns what is made around it until it is closed.
        config: what may be used on a GPU.

    Attributes:
        graphs: decode graphs of the documents that are resident on a GPU.
    """

    def __init__(self, model: LoadedModel, config: DecodeConfig | None = None) -> None:
        self.model = model
        self.graphs = DecodeGraphPool(model.model, model.spec, config or DecodeConfig())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up graphs and cached device memory; no answer may still be running."""
        self.graphs.clear()
        self.release_memory()

    def answer(
        self,
        document: DocumentCache,
        question: str,
        *,
        budget: float,
        sampling: Sampling,
        cancelled: Callable[[], bool] = _never,
    ) -> Iterator[TextDelta | Answer]:
        """Answer a question about a document: text as it comes, the whole answer last.

        Args:
            budget: share of the document cache's bytes that may be read per token, in (0, 1].
            cancelled: asked before every forward pass.
        Raises: EmptyQuestion, QuestionTooLong, Cancelled.
        """
        with closing(self.start(document, question, budget=budget, sampling=sampling)) as running:
            while not running.is_finished:
                if cancelled():
                    raise Cancelled("The caller went away.")
                if text := self.step(running):
                    yield TextDelta(text)
            if rest := running.flush():
                yield TextDelta(rest)
        yield running.result()

    def start(
        self, document: DocumentCache, question: str, *, budget: float, sampling: Sampling
    ) -> RunningAnswer:
        """Check and tokenize a question, before any forward pass; the caller closes what it gets.

        Args:
            budget: share of the document cache's bytes that may be read per token, in (0, 1].
        Raises: EmptyQuestion, QuestionTooLong.
        """
        ids = self._encode_question(document, question)
        return RunningAnswer(
            self.model,
            self.graphs,
            document,
            ids,
            budget=budget,
            sampling=sampling,
            max_tokens=min(sampling.max_tokens, self._room(document, ids)),
        )

    def step(self, running: RunningAnswer) -> str:
        """Take one forward pass: the question's prefill first, then one for each token.

        Returns: the text that is certain now; "" while a character is incomplete.
        """
        return running.step()

    def document_room_bytes(self) -> int | None:
        """Bytes that the model's weights leave of their GPU's memory; None on a CPU."""
        if self.model.device.type != "cuda":
            return None
        total: int = torch.cuda.get_device_properties(self.model.device).total_memory
        return total - sum(weight.nbytes for weight in self.model.model.parameters())

    def release_memory(self) -> None:
        """Give cached device memory back to the GPU; nothing on a CPU."""
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()

    def _encode_question(self, document: DocumentCache, question: str) -> Tensor:
        if not question.strip():
            raise EmptyQuestion("The question is empty.", param="question")
        ids = self.model.prompt.encode_question(question.strip()).to(self.model.device)
        if (room := self._room(document, ids)) < 1:
            raise QuestionTooLong(
                f"The question has {len(ids)} tokens, but beside the document's "
                f"{document.num_tokens} only {len(ids) + room - 1} fit.",
                param="question",
            )
        return ids

    def _room(self, document: DocumentCache, ids: Tensor) -> int:
        """Tokens of the model's context that document and question leave free."""
        return self.model.spec.context_length - document.num_tokens - len(ids)
