"""One question while it is being answered."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

import torch
from torch import Tensor

from engine.attend.attention_profile import profile_attention
from engine.attend.budget import report_budget
from engine.attend.evidence import AttentionMass, Evidence, find_evidence, passage_shares
from engine.attend.question import open_question
from engine.decode.answer import Answer, Confidence, Quote, SentenceEvidence, TextDelta, Usage
from engine.decode.answer_text import AnswerText
from engine.decode.grounded import find_claims
from engine.decode.quote_decoder import QuoteDecoder
from engine.decode.quote_places import place_quotes
from engine.decode.repetition import RepetitionDetector
from engine.decode.sampling import Draw, Sampler, Sampling, TokenMask
from engine.decode.sentence_marks import Mark, SentenceEnds, SentenceMarks
from engine.decode.token_limits import TokenLimits
from engine.decode.turn_states import DocumentKey, TurnsKey, TurnStates
from engine.document.budget import AutoBudget, Budget
from engine.document.cache import DocumentCache
from engine.fallbacks import Fallbacks
from engine.model.loader import LoadedModel


@dataclass(frozen=True)
class PrefillChunk:
    """A part of the prefill of one question; parts come in order.

    Where a question is cut follows from the question alone, never from who else asks: each part
    selects clusters for itself.

    Attributes:
        running: the answer whose question it is.
        ids: token ids (tokens,) int64 on the model's device.
        is_last: whether the answer's first token follows from it.
    """

    running: "RunningAnswer"
    ids: Tensor
    is_last: bool


class _QuoteMask:
    """The `TokenMask` of an answer that quotes; what is thought before it is free."""

    def __init__(self, running: "RunningAnswer") -> None:
        self._running = running

    def allowed(self, answer: Sequence[int]) -> Tensor | None:  # noqa: ARG002
        """Return the tokens that may come, see `TokenMask.allowed`."""
        return self._running.allowed_tokens()


class RunningAnswer:
    """One question between its forward passes, which `Engine.prefill` and `Engine.decode` take.

    All that is known about it is here and in `state`, so that it may pause between any two passes,
    and its state can be kept when the answer has ended.

    Args:
        parts: token ids of the earlier turns and, at last, of the question.
        budget: share of the document cache's bytes that was asked for, in (0, 1], or how much it
            may lose.
        room: tokens that the model's context leaves behind document and question.
        kernels: whether attention may go through Triton kernels on a GPU.
        chunk_tokens: tokens of the longest part in which the question is prefilled.
        mask: which tokens may come; None for all.
        num_dropped_turns: earlier turns that were left out, as they did not fit.
        turn_states: where keys and values of earlier turns are; None to prefill all of them.
        document_key: as whose turns they are there.
        quotes: decodes the answer, which then quotes the document; None if it is free.
        refusal: the sentence that says that the document holds no answer.
        question_text: the question alone, whose words evidence is looked for by, too.
        fallbacks: where it is counted what it does without; None for nowhere.
        sentence_ends: tokens whose text is to be known when they are taken; None for all.

    Attributes:
        state: the question's own keys and values, and what it reads of the document.
        max_tokens: that question, thinking and answer have together at most.
        question, answer: token ids; the question's with the earlier turns, the answer's with all
            that was thought.
    """

    def __init__(
        self,
        model: LoadedModel,
        document: DocumentCache,
        parts: Sequence[Sequence[int]],
        *,
        budget: Budget,
        sampling: Sampling,
        room: int,
        kernels: bool,
        chunk_tokens: int,
        mask: TokenMask | None = None,
        num_dropped_turns: int = 0,
        turn_states: TurnStates | None = None,
        document_key: DocumentKey | None = None,
        quotes: QuoteDecoder | None = None,
        refusal: str = "",
        question_text: str = "",
        fallbacks: Fallbacks | None = None,
        sentence_ends: SentenceEnds | None = None,
    ) -> None:
        self._started_s = time.perf_counter()
        self._model, self._document = model, document
        self._num_dropped_turns = num_dropped_turns
        curves = document.curves
        self._tolerance = budget.tolerance if isinstance(budget, AutoBudget) else None
        share = curves.losses.choose(budget.tolerance) if isinstance(budget, AutoBudget) else budget
        self._requested = share
        self._applied = share if share >= 1.0 else max(share, curves.floor)
        self._mass = self._no_mass()
        self.state = open_question(
            document, self._applied, self._mass, kernels=kernels, fallbacks=fallbacks
        )
        self.question: list[int] = [token for part in parts for token in part]
        self.state.num_prefill = len(self.question)
        self._parts, self._part_ends = tuple(parts), tuple(accumulate(map(len, parts)))
        self._turn_states = turn_states
        self._turns_key = None if document_key is None else TurnsKey(document_key, self._applied)
        self._num_kept = self._take_kept_turns()
        penalty = model.generation.repetition_penalty
        self._quotes, self._refusal = quotes, refusal
        self._question_text = question_text
        given = mask if quotes is None else _QuoteMask(self)
        self._sampler = Sampler(sampling, penalty, model.device, given)
        watches = sampling.stop_repetition and not sampling.ignore_eos
        self._repetition = RepetitionDetector() if watches else None
        self._log_probabilities: list[float] = []
        self._num_passes = 0  # of which there is attention mass
        self._sentences = SentenceMarks()
        self._ends = () if sampling.ignore_eos else model.eos_ids
        limits = TokenLimits.within(room, sampling, model.prompt.thinking)
        self._text = AnswerText(
            model.tokenizer, model.prompt.thinking, limits, sampling.stop, quotes, sentence_ends
        )
        self._has_text = False  # the last token that was taken
        self.answer: list[int] = []
        ids = torch.tensor(self.question, dtype=torch.int64, pin_memory=model.device.type == "cuda")
        self._ids = ids.to(model.device, non_blocking=True)  # no wait for a pass that is running
        self._chunk_tokens = chunk_tokens
        self.max_tokens = len(self.question) + limits.total
        self._finish_reason: str | None = None
        self._marks_ms: dict[str, float] = {}

    @property
    def document(self) -> DocumentCache:
        """The document that the question is about."""
        return self._document

    @property
    def is_finished(self) -> bool:
        """Whether the last token was taken."""
        return self._finish_reason is not None

    @property
    def num_prefilled(self) -> int:
        """Tokens of the question whose forward pass was taken."""
        return min(self.state.position - self._document.num_tokens, len(self.question))

    @property
    def next_chunk(self) -> PrefillChunk:
        """The next part of the prefill."""
        start, end = self.num_prefilled, self.num_prefilled + self.num_next_chunk
        return PrefillChunk(self, self._ids[start:end], end == len(self.question))

    @property
    def num_next_chunk(self) -> int:
        """Tokens of the next part of the prefill; 0 after the last one."""
        done = self.num_prefilled
        end = next((end for end in self._part_ends if end > done), done)
        return min(self._chunk_tokens, end - done)

    @property
    def last_token(self) -> int:
        """The latest token, whose forward pass comes next."""
        return self.answer[-1]

    @property
    def is_thinking(self) -> bool:
        """Whether the model is still thinking, so that evidence is not collected yet."""
        return self._text.is_thinking

    @property
    def may_run_ahead(self) -> bool:
        """Whether the pass of its next token may be launched before that token is known.

        Not if it is known to be the last one, or if the host has a say in which one it is.
        """
        if self.is_finished or self.is_thinking or self._sampler.needs_tokens:
            return False
        return not (self._text.ends_with_next or self._num_tokens + 1 >= self.max_tokens)

    @property
    def _num_tokens(self) -> int:
        return len(self.question) + len(self.answer)

    def forced_token(self) -> int | None:
        """Return the token that must come next, whatever the model says; None if it may choose.

        To be called once after each pass.
        """
        self._marks_ms.setdefault("question_prefill", self._elapsed_ms())
        return self._text.forced_token()

    def draw(self) -> Draw:
        """Return what the next token is drawn by."""
        return Draw(self._sampler, self.question, self.answer)

    def allowed_tokens(self) -> Tensor | None:
        """Return the tokens that may come next where the answer quotes; None for all."""
        return None if self._quotes is None or self.is_thinking else self._quotes.allowed()

    def push(self, token: int, log_probability: float | None = None) -> TextDelta:
        """Take a token, and return its text, as `take` and `read` do."""
        self.take(token, log_probability)
        return self.read()

    def take(self, token: int, log_probability: float | None = None) -> None:
        """Add the token that followed from a pass; afterwards it is known whether it was the last.

        Args:
            log_probability: what the model gave it, in nats; None where it had no choice.
        """
        self._marks_ms.setdefault("first_token", self._elapsed_ms())
        if not self.is_thinking:
            self._num_passes += 1
            if log_probability is not None:
                self._log_probabilities.append(log_probability)
        self._has_text = not self._text.is_end(token, self._ends)
        if not self._has_text:
            self._finish_reason = "stop"
            return
        self.answer.append(token)
        self._text.take(token)
        if self._repetition is not None and not self.is_thinking and self._repetition.push(token):
            self._finish_reason = "repetition"
        if self._text.is_stopped:
            self._finish_reason = "stop"
        elif self._text.is_full or self._num_tokens >= self.max_tokens:
            self._finish_reason = "length"

    def read(self) -> TextDelta:
        """Return the text that is certain with the token that was taken last.

        To be called once for each token; "" while a character is incomplete.
        """
        return self._text.read() if self._has_text else TextDelta("")

    def forget_evidence(self) -> None:
        """Drop the attention mass that was collected so far: it belongs to no answer."""
        self._mass = self.state.mass = self._no_mass()
        self._num_passes, self._sentences = 0, SentenceMarks()

    @property
    def may_end_sentence(self) -> bool:
        """Whether the answer's text ends as sentences do: then `mark_sentence` is to be called."""
        if self.is_finished or self.is_thinking or not self._text.is_read:
            return False
        return self._sentences.may_end(self._text.answer)

    def mark_sentence(self) -> None:
        """Note the attention mass so far; all that was collected is in the state."""
        mark = self._mass.by_place.clone()
        self._sentences.add(Mark(len(self._text.answer), self._num_passes, mark))

    @property
    def passage_shares(self) -> Tensor:
        """The share of the attention mass that each passage got so far (passages,)."""
        mass = self._mass.above_neutral(self._mass.by_place, self._num_passes)
        return passage_shares(self._document, mass)

    def keep_turns(self, *, num_turns: int) -> None:
        """Keep keys and values of the first turns for a later question, after the last pass."""
        if self._turn_states is not None and self._turns_key is not None:
            turns = self._parts[:num_turns]
            self._turn_states.add(self._turns_key, turns, self.state.keys_and_values())

    def flush(self) -> TextDelta:
        """Return the text that was held back for an incomplete character."""
        return self._text.flush()

    def result(self) -> Answer:
        """Put the whole answer together, after the last pass and `Engine.finish`."""
        marks = self._marks_ms
        marks["decode"] = self._elapsed_ms() - marks["first_token"]
        if self._text.is_thinking:
            self.forget_evidence()
        text, document = self._text.answer, self._document
        # All of it at once: on a GPU each copy waits for the pass that others are in meanwhile.
        collected, *at_marks = torch.stack((self._mass.by_place, *self._sentences.masses)).cpu()
        self._sentences = self._sentences.with_masses(at_marks)
        raw = self._mass.on_tokens(collected)
        mass = self._mass.above_neutral(collected, self._num_passes)
        quotes = None
        if self._quotes is not None:
            quotes = place_quotes(document, mass, self._quotes.quotes(text))
        quoted = [(quote.start_char, quote.end_char) for quote in quotes or ()]
        evidence: tuple[Evidence, ...] = ()
        if not self._text.is_thinking:  # else there is no answer that it could be of
            asked = self._question_text
            evidence = find_evidence(document, mass, question=asked, quoted=quoted)
        claims = None
        if quotes is None and self._document.num_tokens:
            spans = tuple((passage.start_char, passage.end_char) for passage in evidence)
            claims = find_claims(text, self._document, spans)
        attention = profile_attention(document, mass)
        marks["total"] = self._elapsed_ms()
        meter = self.state.meter
        return Answer(
            text=text,
            finish_reason=self._finish_reason or "stop",
            evidence=evidence,
            attention=attention,
            budget=report_budget(
                meter,
                self._requested,
                self._applied,
                self._tolerance,
                document.curves.losses.at(self._applied),
            ),
            usage=Usage(
                document_tokens=self._document.num_tokens,
                question_tokens=len(self.question),
                completion_tokens=len(self.answer),
                kv_bytes_read=meter.bytes_read,
                kv_bytes_resident=self._document.kv_bytes,
                thinking_tokens=self._text.num_thinking,
                kept_tokens=self._num_kept,
            ),
            timings_ms={name: round(value, 3) for name, value in marks.items()},
            thinking=self._text.thinking,
            num_dropped_turns=self._num_dropped_turns,
            sentences=self._sentence_evidence(text, collected, quotes or ()),
            confidence=self._confidence(raw),
            refused=" ".join(text.split()) == self._refusal,
            quotes=quotes,
            claims=claims,
        )

    def _sentence_evidence(
        self, text: str, collected: Tensor, quotes: Sequence[Quote]
    ) -> tuple[SentenceEvidence, ...]:
        """Each sentence of the answer with the passages that were attended to meanwhile.

        Args:
            collected: attention mass of the whole answer by place (tokens,).
        """
        last = Mark(len(text), self._num_passes, collected)
        found = []
        for (start, end), part in self._sentences.parts(text, last):
            mass = self._mass.above_neutral(part.mass, part.num_passes)
            quoted = [
                (quote.start_char, quote.end_char)
                for quote in quotes
                if start <= quote.answer_start < end
            ]
            words = f"{self._question_text} {text[start:end]}"
            evidence = find_evidence(self._document, mass, question=words, quoted=quoted)
            found.append(SentenceEvidence(start, end, evidence))
        return tuple(found)

    def _confidence(self, mass: Tensor) -> Confidence:
        known = self._log_probabilities
        spec = self._model.spec.layers
        num_heads = sum(
            layer.num_collecting * spec[index].num_heads // spec[index].num_kv_heads
            for index, layer in enumerate(self._document.layers)
        )
        weight = num_heads if self._document.profile is None else 1  # of a pass
        most = max(1, weight * self._num_passes)
        return Confidence(
            round(fmean(known), 4) if known else None, round(float(mass.sum()) / most, 4)
        )

    def _take_kept_turns(self) -> int:
        """Begin behind the earlier turns that are kept; return how many tokens they have."""
        if self._turn_states is None or self._turns_key is None:
            return 0
        kept = self._turn_states.find(self._turns_key, self._parts[:-1], self._model.device)
        if kept is None:
            return 0
        self.state.take_over(kept.keys, kept.values)
        return kept.num_tokens

    def _no_mass(self) -> AttentionMass:
        return AttentionMass(self._document, self._model.device)

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started_s) * 1e3
