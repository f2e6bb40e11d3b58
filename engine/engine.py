"""The engine: it owns a loaded model, its decode graphs and its memory, and answers questions.

An answer is taken step by step: one forward pass a step, the question's prefill first, then a token
at a time. `Engine.answer` is the loop over one question's steps.
"""

from collections.abc import Callable, Iterator
from typing import Self

import torch
from torch import Tensor

from common.errors import CallerGone, EmptyQuestion, EngineFault, QuestionTooLong
from engine.config import DecodeConfig
from engine.decode.answer import Answer, TextDelta
from engine.decode.graph_pool import DecodeGraphPool, DecodeSession
from engine.decode.running_answer import RunningAnswer
from engine.decode.sampling import Sampling
from engine.document.cache import DocumentCache
from engine.model.attention import forward
from engine.model.loader import LoadedModel
from engine.model.spec import probe_logits
from engine.turns import DeviceTurns


def _never() -> bool:
    return False


class Engine:
    """Answers questions about documents with one model.

    Args:
        model: the loaded model; the engine owns what is made around it until it is closed.
        config: what may be used on a GPU.

    Attributes:
        turns: of its answers and of a document that is read on the same device.
        graphs: decode graphs of the documents that are resident on a GPU, but for those of a model
            with LongRoPE.
    """

    def __init__(self, model: LoadedModel, config: DecodeConfig | None = None) -> None:
        self.model = model
        self.turns = DeviceTurns()
        config = config or DecodeConfig()
        self.graphs = DecodeGraphPool(model.model, model.spec, config)
        # A model with LongRoPE runs differently over short and over long documents.
        ropes = () if model.longrope is None else model.longrope.models
        self._graphs_by_rope: dict[str | None, DecodeGraphPool] = {None: self.graphs} | {
            rope: DecodeGraphPool(model.with_rope(rope).model, model.spec, config) for rope in ropes
        }
        self._sessions: dict[RunningAnswer, DecodeSession] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up graphs and cached device memory; no answer may still be running."""
        for graphs in self._graphs_by_rope.values():
            graphs.clear()
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

        What the model marks as thinking comes first, in deltas that say so.

        Args:
            budget: share of the document cache's bytes that may be read per token, in (0, 1].
            cancelled: asked before every forward pass.
        Raises: EmptyQuestion, QuestionTooLong, CallerGone, NonFiniteNumbers.
        """
        running = self.start(document, question, budget=budget, sampling=sampling)
        try:
            while not running.is_finished:
                if cancelled():
                    raise CallerGone("The caller went away.")
                if (delta := self.step(running)).text:
                    yield delta
            if (rest := running.flush()).text:
                yield rest
        finally:
            self.finish(running)
        yield running.result()

    def start(
        self, document: DocumentCache, question: str, *, budget: float, sampling: Sampling
    ) -> RunningAnswer:
        """Check and tokenize a question, before any forward pass; to be ended by `finish`.

        Args:
            budget: share of the document cache's bytes that may be read per token, in (0, 1].
        Raises: EmptyQuestion, QuestionTooLong.
        """
        ids = self._encode_question(document, question)
        running = RunningAnswer(
            self.model,
            document,
            ids,
            budget=budget,
            sampling=sampling,
            room=self._room(document, ids),
            kernels=self.graphs.uses_kernels,
        )
        rope = document.choices.rope
        self._sessions[running] = DecodeSession(
            self._graphs_by_rope[rope],
            self.model.with_rope(rope).model,
            running.state,
            running.max_tokens,
        )
        return running

    def step(self, running: RunningAnswer) -> TextDelta:
        """Take one forward pass: the question's prefill first, then one for each token.

        Returns: the text that is certain now; "" while a character is incomplete.
        Raises: NonFiniteNumbers if the model computed infinite or undefined logits.
        """
        was_thinking = running.is_thinking
        with self.turns.answering():  # until the token is on the host
            if running.is_prefilled:
                logits = self._sessions[running].logits(running.ids[-1:])
            else:
                state = running.state
                model = self.model.with_rope(state.document.choices.rope).model
                logits = forward(model, running.ids, state.position, state)[-1]
            delta = running.append_token(logits)
        if was_thinking and not running.is_thinking:
            running.forget_evidence()
            self._sessions[running].forget_evidence()
        return delta

    def finish(self, running: RunningAnswer) -> None:
        """Give back the decode graph that an answer uses, whether it has ended or not."""
        self._sessions.pop(running).close()

    def check(self) -> None:
        """Run a forward pass of a few tokens, as somebody who wants to know whether that works.

        Raises: what the pass raises; EngineFault if its logits are not finite.
        """
        if not bool(probe_logits(self.model.model).isfinite().all()):
            raise EngineFault("The model's logits are not finite.")

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
