"""The engine: it owns a loaded model, its decode graphs and its memory, and answers questions.

Answers are taken step by step: one forward pass a step, the questions' prefills first, then a token
of each at a time. `Engine.answer` is the loop over one question's steps.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Self

import torch
from torch import Tensor

from common.errors import (
    CallerGone,
    ConversationTooLong,
    EmptyQuestion,
    EngineFault,
    InvalidInput,
    LecternError,
    QuestionTooLong,
)
from engine.config import DecodeConfig
from engine.cpu_threads import keep_to_threads, release_worker_threads
from engine.decode.answer import Answer, TextDelta
from engine.decode.batch_runner import BatchRunner, why_unsupported
from engine.decode.graph_runner import GraphRunner
from engine.decode.model_runner import ModelRunner
from engine.decode.quote_decoder import QuoteDecoder
from engine.decode.quoting import Quoting
from engine.decode.running_answer import RunningAnswer
from engine.decode.sampling import Sampling, TokenMask, draw_tokens, non_finite
from engine.decode.sentence_marks import SentenceEnds
from engine.decode.turn_states import DocumentKey, TurnStates
from engine.document.budget import EXACT, Budget
from engine.document.cache import DocumentCache
from engine.fallbacks import Cause, Fallbacks, Part
from engine.model.empty_document import empty_document
from engine.model.fingerprint import digest
from engine.model.loader import LoadedModel
from engine.model.prompt import Ids, Turn
from engine.model.spec import probe_logits
from engine.turns import DeviceTurns

log = logging.getLogger("lectern.decoding")


def _never() -> bool:
    return False


def _graph_runner_for(
    model: LoadedModel, config: DecodeConfig, fallbacks: Fallbacks
) -> GraphRunner:
    """Choose how answers are decoded: in batches of any documents where that can be."""
    if not (config.batch_graphs and config.triton_kernels and model.device.type == "cuda"):
        return GraphRunner(model, config, fallbacks=fallbacks)
    if (reason := why_unsupported(model)) is not None:
        log.info("decoding document by document: %s", reason)
        fallbacks.count(Part.BATCH, Cause.UNSUPPORTED)
        return GraphRunner(model, config, fallbacks=fallbacks)
    return BatchRunner(model, config, fallbacks=fallbacks)


class Engine:
    """Answers questions about documents with one model.

    But for `prepare`, one thread at a time uses it.

    Args:
        model: the loaded model; the engine owns what is made around it until it is closed.
        config: how questions are answered.
        runner: takes the forward passes; None for the one that suits the model's device.

    Attributes:
        turns: of its passes and of a document that is read on the same device.
        runner: takes the forward passes.
        turn_states: keys and values of conversations' turns.
        fallbacks: how often it did without what it was asked to use.
        graphs: decode graphs of the documents that are resident on a GPU, but for those of a model
            with LongRoPE; empty where another runner was given.
    """

    def __init__(
        self,
        model: LoadedModel,
        config: DecodeConfig | None = None,
        runner: ModelRunner | None = None,
    ) -> None:
        self.model = model
        self.turns, self.fallbacks = DeviceTurns(), Fallbacks()
        self._config = config or DecodeConfig()
        self.turn_states = TurnStates(self._config.turn_state_bytes, self._config.turn_state_s)
        self._quoting = Quoting(model, self._config.refusal)
        self._sentence_ends = SentenceEnds(model.tokenizer)
        self._coming: Tensor | None = None  # tokens of the present step, until they are known
        graph_runner = (
            _graph_runner_for(model, self._config, self.fallbacks)
            if runner is None
            else GraphRunner(model, self._config, fallbacks=self.fallbacks)
        )
        self.graphs = graph_runner.graphs
        self.runner: ModelRunner = runner or graph_runner

    @property
    def fingerprint(self) -> str:
        """Names all that an answer follows from beside its document and its question."""
        model, prompt = self.model, self.model.prompt
        fields = {
            "model": model.fingerprint,
            "plan": model.plan.fingerprint,
            "prompt": [prompt.head, prompt.middle, prompt.foot, prompt.between, prompt.alone],
            "generation": asdict(model.generation),
            "device": model.device.type,
            "decoding": {
                name: value
                for name, value in asdict(self._config).items()
                if not name.startswith("turn_state")  # which never changes an answer
            },
        }
        return digest(fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def warm_up(self) -> None:
        """Prepare the runner, so that no question pays for compiling and capturing.

        Where graphs were captured a dummy question is answered, too: kernels that libraries load
        with their first use are on the GPU before the first real one.

        Raises: whatever the runner, a compiler or a driver may raise.
        """
        self.runner.warm_up()
        if self.model.device.type == "cuda" and isinstance(self.runner, BatchRunner):
            self.answer_dummy_question()

    def answer_dummy_question(self) -> None:
        """Answer a question without a document by a few tokens, greedily and by sampling."""
        document = empty_document(self.model)
        for temperature in (0.0, 1.0):
            sampling = Sampling(3, temperature=temperature, top_p=0.9, ignore_eos=True)
            for _ in self.answer(document, "Hello", budget=EXACT, sampling=sampling):
                pass

    def close(self) -> None:
        """Give up graphs and cached device memory; no answer may still be running."""
        self.runner.close()
        self.release_memory()

    def answer(
        self,
        document: DocumentCache,
        question: str,
        *,
        budget: Budget,
        sampling: Sampling,
        turns: Sequence[Turn] = (),
        may_drop_turns: bool = False,
        document_key: DocumentKey | None = None,
        cancelled: Callable[[], bool] = _never,
    ) -> Iterator[TextDelta | Answer]:
        """Answer one question about a document: text as it comes, the whole answer last.

        What the model marks as thinking comes first, in deltas that say so.

        Args:
            budget: share of the document cache's bytes that may be read per token, in (0, 1]; or
                how much the answer may lose by what is not read.
            turns: earlier questions with their answers, oldest first.
            may_drop_turns: whether the oldest turns are left out where they do not fit.
            document_key: as which document's turns earlier ones may be kept, see `prepare`.
            cancelled: asked before every forward pass.
        Raises: EmptyQuestion, QuestionTooLong, CallerGone, NonFiniteNumbers.
        """
        running = self.prepare(
            document,
            question,
            budget=budget,
            sampling=sampling,
            turns=turns,
            may_drop_turns=may_drop_turns,
            document_key=document_key,
        )
        self.add(running)
        try:
            while not running.is_finished:
                if cancelled():
                    raise CallerGone("The caller went away.")
                (delta,) = self.step([running])
                if isinstance(delta, LecternError):
                    raise delta
                if delta.text:
                    yield delta
            if (rest := running.flush()).text:
                yield rest
        finally:
            self.finish(running)
        yield running.result()

    def start(
        self,
        document: DocumentCache,
        question: str,
        *,
        budget: Budget,
        sampling: Sampling,
        turns: Sequence[Turn] = (),
        mask: TokenMask | None = None,
    ) -> RunningAnswer:
        """Prepare a question and add it; to be ended by `finish`. As `prepare`."""
        running = self.prepare(
            document, question, budget=budget, sampling=sampling, turns=turns, mask=mask
        )
        self.add(running)
        return running

    def prepare(
        self,
        document: DocumentCache,
        question: str,
        *,
        budget: Budget,
        sampling: Sampling,
        turns: Sequence[Turn] = (),
        may_drop_turns: bool = False,
        document_key: DocumentKey | None = None,
        mask: TokenMask | None = None,
    ) -> RunningAnswer:
        """Check and tokenize a question; any thread may do so.

        Args:
            document: what is asked about; one without tokens for a chat with the model alone.
            budget: share of the document cache's bytes that may be read per token, in (0, 1]; or
                how much the answer may lose by what is not read.
            turns: earlier questions with their answers, oldest first.
            may_drop_turns: whether the oldest turns are left out where they do not fit.
            document_key: as which document's turns earlier ones may be kept; the answer is the same
                whether they are. None to prefill all of them.
            mask: which tokens may come; None for all.
        Raises: EmptyQuestion, QuestionTooLong, ConversationTooLong; InvalidInput if there are turns
            and the model's template takes one question alone, and if there is nothing to quote.
        """
        quotes = self._quotes(document, mask) if sampling.mode == "quote" else None
        kept = turns
        if may_drop_turns:
            kept = self._fitting_turns(document, question, turns, document_key)
        parts = self._encode_question(document, question, kept, document_key)
        return RunningAnswer(
            self.model,
            document,
            parts,
            budget=budget,
            sampling=sampling,
            room=self._room(document, parts),
            kernels=self._config.triton_kernels,
            chunk_tokens=self._config.question_chunk_tokens,
            mask=mask,
            num_dropped_turns=len(turns) - len(kept),
            quotes=quotes,
            refusal=self._config.refusal,
            question_text=question,
            turn_states=self.turn_states,
            document_key=document_key,
            fallbacks=self.fallbacks,
            sentence_ends=self._sentence_ends,
        )

    def prepare_turns(
        self,
        document: DocumentCache,
        turns: Sequence[Turn],
        *,
        budget: Budget,
        document_key: DocumentKey,
    ) -> RunningAnswer:
        """Tokenize turns that are to be prefilled, for a question that may come; as `prepare`.

        Returns: what ends with the turns' prefill, and then is for `keep_turns` alone.
        Raises: ConversationTooLong.
        """
        parts = self._prompt_parts(document, "", turns, document_key)[: len(turns)]
        if (room := self._room(document, parts)) < 1:
            raise ConversationTooLong("The conversation has come to its end.")
        return RunningAnswer(
            self.model,
            document,
            parts,
            budget=budget,
            sampling=Sampling(max_tokens=1),
            room=room,
            kernels=self._config.triton_kernels,
            chunk_tokens=self._config.question_chunk_tokens,
            turn_states=self.turn_states,
            document_key=document_key,
            fallbacks=self.fallbacks,
        )

    def _quotes(self, document: DocumentCache, mask: TokenMask | None) -> QuoteDecoder:
        """Make what a quoting answer is decoded with.

        Raises: InvalidInput.
        """
        if document.num_tokens == 0:
            raise InvalidInput("Without a document there is nothing to quote.", param="mode")
        if mask is not None:
            raise InvalidInput("An answer that quotes takes no other form.", param="mode")
        return self._quoting.decoder(document)

    def add(self, running: RunningAnswer) -> None:
        """Let an answer take part in steps; to be ended by `finish`."""
        self.runner.add(running)

    @property
    def is_asynchronous(self) -> bool:
        """Whether a pass is computed on a device while this thread may do something else."""
        return self.model.device.type == "cuda"

    def keep_to_one_thread(self) -> None:
        """Let the calling thread compute alone, see `engine.cpu_threads`."""
        keep_to_threads(1)

    def release_idle_threads(self) -> None:
        """End the calling thread's worker threads if a document is being read on the same CPU.

        To be called when there is nothing to compute: the next forward pass makes them anew.
        """
        if not self.is_asynchronous and self.turns.is_reading_document:
            release_worker_threads()

    def begin_decode(self, rows: Sequence[RunningAnswer]) -> None:
        """Launch the next decoding pass, whose tokens `step` takes, if the runner can do so.

        Args:
            rows: none of them finished. The next `step` is for them, or for those that still run.
                While a step is under way, its rows, if they `can_run_ahead`.
        """
        self.runner.begin_decode(rows, self._coming)

    def can_run_ahead(self, rows: Sequence[RunningAnswer]) -> bool:
        """Whether the next pass of rows may be launched before the tokens of this one are known.

        A row that these end has its part of that pass thrown away.
        """
        is_open = all(row.may_run_ahead for row in rows)
        return is_open and self._coming is not None and self.runner.can_run_ahead(rows)

    def step(
        self,
        rows: Sequence[RunningAnswer],
        meanwhile: Callable[[], None] | None = None,
        on_tokens: Callable[[Sequence[LecternError | None]], None] | None = None,
    ) -> list[TextDelta | LecternError]:
        """Take one forward pass for answers that are all being prefilled, or are all decoding.

        Args:
            rows: none of them finished, none twice.
            meanwhile: called at most once, while the device computes, if given; it must not raise.
                It may `begin_decode` of the rows of a decoding step that `can_run_ahead`.
            on_tokens: called, if given, when the tokens are known and before their text is worked
                out, so that it may `begin_decode`; with what went wrong for each of the rows.
        Returns: for each the text that is certain now, "" while a character is incomplete or a
            prefill goes on; or NonFiniteNumbers if its logits were infinite or undefined.
        """
        with self.turns.answering():
            return self._step(rows, meanwhile, on_tokens)

    def finish(self, running: RunningAnswer) -> None:
        """Give back what the runner holds for an answer, whether it has ended or not."""
        self.runner.remove(running)

    def _step(
        self,
        rows: Sequence[RunningAnswer],
        meanwhile: Callable[[], None] | None,
        on_tokens: Callable[[Sequence[LecternError | None]], None] | None,
    ) -> list[TextDelta | LecternError]:
        """Take a pass, until its tokens are on the host, and work out their text."""
        if rows[0].num_next_chunk == 0:
            chosen: Sequence[RunningAnswer] = rows
            logits = self.runner.decode(rows)
        else:
            chunks = [row.next_chunk for row in rows]
            logits = self.runner.prefill(chunks)
            chosen = [chunk.running for chunk in chunks if chunk.is_last]
        failures: dict[RunningAnswer, LecternError] = {}
        if chosen:
            failures = self._choose(chosen, logits, meanwhile)
        if on_tokens is not None:
            on_tokens([failures.get(row) for row in rows])
        texts = {row: row.read() for row in chosen if row not in failures}
        return [failures.get(row) or texts.get(row) or TextDelta("") for row in rows]

    def _choose(
        self, rows: Sequence[RunningAnswer], logits: Tensor, meanwhile: Callable[[], None] | None
    ) -> dict[RunningAnswer, LecternError]:
        """Let rows take the tokens that follow from a pass; logits (rows, vocabulary) fp32.

        Returns: what went wrong for those that got none.
        """
        forced = [row.forced_token() for row in rows]
        draws = [
            None if must is not None else row.draw() for row, must in zip(rows, forced, strict=True)
        ]
        drawn = draw_tokens(draws, logits)
        if meanwhile is not None:
            self._coming = drawn.ids
            try:
                meanwhile()
            finally:
                self._coming = None
        failures: dict[RunningAnswer, LecternError] = {}
        for row, must, token in zip(rows, forced, drawn.fetch(), strict=True):
            if token is None and must is None:
                failures[row] = non_finite()
                continue
            was_thinking = row.is_thinking
            if must is not None:
                row.take(must)
            elif token is not None:
                row.take(token.token, token.log_probability)
            if was_thinking and not row.is_thinking:
                self.runner.forget_evidence(row)
            elif row.may_end_sentence:
                self.runner.collect_evidence(row)
                row.mark_sentence()
        return failures

    def check(self) -> None:
        """Run a forward pass of a few tokens, as somebody who wants to know whether that works.

        Raises: what the pass raises; EngineFault if its logits are not finite.
        """
        self.keep_to_one_thread()
        if not bool(probe_logits(self.model.model).isfinite().all()):
            raise EngineFault("The model's logits are not finite.")

    def release_memory(self) -> None:
        """Give cached device memory back to the GPU; nothing on a CPU."""
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()

    def _encode_question(
        self,
        document: DocumentCache,
        question: str,
        turns: Sequence[Turn],
        document_key: DocumentKey | None,
    ) -> tuple[Ids, ...]:
        if not question.strip():
            raise EmptyQuestion("The question is empty.", param="question")
        parts = self._prompt_parts(document, question, turns, document_key)
        if (room := self._room(document, parts)) < 1:
            too_long = ConversationTooLong if turns else QuestionTooLong
            what = "The question with its earlier turns" if turns else "The question"
            num_tokens = sum(map(len, parts))
            raise too_long(
                f"{what} has {num_tokens} tokens, but beside the document's "
                f"{document.num_tokens} only {num_tokens + room - 1} fit.",
                param="question",
            )
        return parts

    def _fitting_turns(
        self,
        document: DocumentCache,
        question: str,
        turns: Sequence[Turn],
        document_key: DocumentKey | None,
    ) -> Sequence[Turn]:
        """Leave out the oldest turns until the others fit beside the question."""
        kept = turns
        while kept:
            parts = self._prompt_parts(document, question, kept, document_key)
            if self._room(document, parts) >= 1:
                break
            kept = kept[1:]
        return kept

    def _prompt_parts(
        self,
        document: DocumentCache,
        question: str,
        turns: Sequence[Turn],
        document_key: DocumentKey | None,
    ) -> tuple[Ids, ...]:
        """Tokenize what follows the document; without one, the whole chat.

        Blanks around a question do not count when it is asked, so neither do they later.
        """
        prompt = self.model.prompt
        turn_ids = None
        if document_key is not None:
            owner = document_key.owner
            turn_ids = partial(self.turn_states.ids, owner, tokenize=prompt.ids)
        parts_of = prompt.question_parts if document.num_tokens else prompt.chat_parts
        stripped = [Turn(turn.question.strip(), turn.answer) for turn in turns]
        return parts_of(question.strip(), stripped, turn_ids)

    def _room(self, document: DocumentCache, parts: Sequence[Ids]) -> int:
        """Tokens of the model's context that document and question leave free."""
        return self.model.spec.context_length - document.num_tokens - sum(map(len, parts))
