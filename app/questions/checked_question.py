"""A question within the limits of the server."""

from dataclasses import dataclass
from typing import TypeVar

from app.config import ServerConfig
from app.questions.conversation import Keeping
from app.questions.schemas import QuestionBody
from common.errors import EmptyQuestion, InvalidInput, QuestionTooLong
from engine.config import AnswerMode
from engine.decode.sampling import Sampling
from engine.document.budget import AUTO, AutoBudget, Budget, parse_budget
from engine.model.generation import GREEDY, GenerationDefaults
from engine.model.prompt import Turn

Number = TypeVar("Number", int, float)

DEFAULT_MAX_TOKENS = 128
LOWEST_TEMPERATURE = 1e-3
OTHER_KIND = "other"  # a budget that is a number


@dataclass(frozen=True)
class CheckedQuestion:
    """A question within the server's limits.

    Attributes:
        text: the question, without blanks around it.
        budget: share of the document's cache that may be read per token, in (0, 1], or how much
            the answer may lose.
        sampling: how tokens are chosen, and how many there may be.
        turns: earlier questions with their answers, oldest first.
        may_drop_turns: whether the oldest turns are left out where they do not fit.
        keeping: as which turn the answer is kept; None for not at all.
        may_go_on: whether a later question is likely to follow it, so that the keys and values of
            its turns are worth keeping.
        wants_attention: whether the answer tells where in the whole document the model attended.
        kind: names like requests, whose figures can be compared.
        may_reuse: whether an earlier answer to the same question will do, and this one later.
        answer_key: under which the answer is stored for the same question; empty for not at all.
        param: name of the request's parameter that holds the question, for errors.
    """

    text: str
    budget: Budget
    sampling: Sampling
    turns: tuple[Turn, ...] = ()
    may_drop_turns: bool = False
    keeping: Keeping | None = None
    may_go_on: bool = False
    wants_attention: bool = False
    kind: str = OTHER_KIND
    may_reuse: bool = True
    answer_key: str = ""
    param: str = "question"

    def most_tokens(self, *, thinks: bool) -> int:
        """Return how many tokens question and answer have at most, but for a few of the prompt.

        Args:
            thinks: whether the model marks thinking, which has a limit of its own.
        """
        thinking = (self.sampling.max_thinking_tokens or 0) if thinks else 0
        texts = [self.text, *(text for turn in self.turns for text in (turn.question, turn.answer))]
        num_bytes = sum(len(text.encode()) for text in texts)
        return num_bytes + self.sampling.max_tokens + thinking


def check_question(
    body: QuestionBody,
    limits: ServerConfig,
    generation: GenerationDefaults = GREEDY,
    *,
    has_document: bool = True,
    param: str = "question",
) -> CheckedQuestion:
    """Check a question against the server's limits.

    Args:
        generation: the model's own way of choosing tokens, which counts where the settings say so.
        has_document: whether it is about a document, which alone can be quoted.
        param: name of the request's parameter that holds the question, for errors.
    Raises: EmptyQuestion, QuestionTooLong; InvalidInput if it asks for too many tokens, or for
        quotes where there is nothing to quote.
    """
    text = body.question.strip()
    if not text:
        raise EmptyQuestion(f"Ask a question: `{param}` holds no text.", param=param)
    if len(text) > limits.max_question_chars:
        raise QuestionTooLong(
            f"The question has {len(text)} characters; at most {limits.max_question_chars} fit.",
            param=param,
        )
    max_tokens = body.max_tokens or min(DEFAULT_MAX_TOKENS, limits.max_answer_tokens)
    if max_tokens > limits.max_answer_tokens:
        raise InvalidInput(
            f"max_tokens: at most {limits.max_answer_tokens} on this server.", param="max_tokens"
        )
    max_thinking_tokens = _or(body.max_thinking_tokens, limits.max_thinking_tokens)
    if max_thinking_tokens > limits.max_thinking_tokens:
        raise InvalidInput(
            f"max_thinking_tokens: at most {limits.max_thinking_tokens} on this server.",
            param="max_thinking_tokens",
        )
    usual = generation if limits.sampling == "model" else GREEDY
    temperature = _or(body.temperature, usual.temperature)
    sampling = Sampling(
        max_tokens=max_tokens,
        # Logits divided by a lower temperature could overflow; the result would be greedy anyway.
        temperature=temperature if temperature >= LOWEST_TEMPERATURE else 0.0,
        top_p=_or(body.top_p, usual.top_p),
        seed=body.seed,
        top_k=usual.top_k,
        min_p=usual.min_p,
        max_thinking_tokens=max_thinking_tokens,
        stop=tuple(body.stop),
        ignore_eos=body.ignore_eos,
        stop_repetition=limits.stop_repetition
        if body.stop_repetition is None
        else body.stop_repetition,
        mode=_mode(body, limits, has_document=has_document),
    )
    return CheckedQuestion(
        text,
        _budget(body, limits),
        sampling,
        may_reuse=body.reuse_answer,
        wants_attention=body.attention,
        kind=_kind(body, sampling.mode),
        param=param,
    )


def _budget(body: QuestionBody, limits: ServerConfig) -> Budget:
    """Say how much of a document may be read. Raises: InvalidInput."""
    if body.budget == AUTO:
        return AutoBudget(limits.auto_tolerance if body.tolerance is None else body.tolerance)
    if body.tolerance is not None:
        raise InvalidInput('tolerance: it belongs to the budget "auto".', param="tolerance")
    return parse_budget(body.budget)


def _mode(body: QuestionBody, limits: ServerConfig, *, has_document: bool) -> AnswerMode:
    """Say how a question is answered. Raises: InvalidInput."""
    if body.mode == "quote" and not has_document:
        raise InvalidInput("mode: without a document there is nothing to quote.", param="mode")
    if body.mode is not None:
        return body.mode
    return "quote" if limits.answer_mode == "quote" and has_document else "free"


def _kind(body: QuestionBody, mode: AnswerMode) -> str:
    """Name like requests by their budget and mode: "fast", "balanced, quote", "other"."""
    budget = body.budget if isinstance(body.budget, str) else OTHER_KIND
    return budget if mode == "free" else f"{budget}, {mode}"


def _or(value: Number | None, otherwise: Number) -> Number:
    return otherwise if value is None else value
