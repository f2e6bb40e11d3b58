"""A question within the limits of the server."""

from dataclasses import dataclass
from typing import TypeVar

from app.config import ServerConfig
from app.questions.schemas import QuestionBody
from common.errors import EmptyQuestion, InvalidInput, QuestionTooLong
from engine.decode.sampling import Sampling
from engine.document.budget import parse_budget
from engine.model.generation import GREEDY, GenerationDefaults

Number = TypeVar("Number", int, float)

DEFAULT_MAX_TOKENS = 128
LOWEST_TEMPERATURE = 1e-3


@dataclass(frozen=True)
class CheckedQuestion:
    """A question within the server's limits.

    Attributes:
        text: the question, without blanks around it.
        budget: share of the document's cache that may be read per token, in (0, 1].
        sampling: how tokens are chosen, and how many there may be.
    """

    text: str
    budget: float
    sampling: Sampling


def check_question(
    body: QuestionBody, limits: ServerConfig, generation: GenerationDefaults = GREEDY
) -> CheckedQuestion:
    """Check a question against the server's limits.

    Args:
        generation: the model's own way of choosing tokens, which counts where the settings say so.
    Raises: EmptyQuestion, QuestionTooLong; InvalidInput if it asks for too many tokens.
    """
    text = body.question.strip()
    if not text:
        raise EmptyQuestion("Ask a question: `question` holds no text.", param="question")
    if len(text) > limits.max_question_chars:
        raise QuestionTooLong(
            f"The question has {len(text)} characters; at most {limits.max_question_chars} fit.",
            param="question",
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
    )
    return CheckedQuestion(text, parse_budget(body.budget), sampling)


def _or(value: Number | None, otherwise: Number) -> Number:
    return otherwise if value is None else value
