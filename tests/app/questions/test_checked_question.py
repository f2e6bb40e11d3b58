"""A question is held to the limits of the server's own settings."""

from typing import Any

import pytest

from app.config import ServerConfig
from app.questions.checked_question import DEFAULT_MAX_TOKENS, check_question
from app.questions.schemas import QuestionBody
from common.errors import EmptyQuestion, InvalidInput, QuestionTooLong

LIMITS = ServerConfig(max_question_chars=20, max_answer_tokens=200)


def body(question: str = "Who kept it?", **fields: Any) -> QuestionBody:
    return QuestionBody(question=question, **fields)


def test_a_question_longer_than_the_servers_limit_is_refused() -> None:
    assert check_question(body("x" * 20), LIMITS).text == "x" * 20
    with pytest.raises(QuestionTooLong, match="has 21 characters; at most 20 fit") as refused:
        check_question(body("x" * 21), LIMITS)
    assert refused.value.param == "question"


def test_blanks_around_a_question_do_not_count() -> None:
    assert check_question(body(f"  {'x' * 20}\n"), LIMITS).text == "x" * 20
    with pytest.raises(EmptyQuestion):
        check_question(body(" \n "), LIMITS)


def test_an_answer_longer_than_the_servers_limit_is_refused() -> None:
    assert check_question(body(max_tokens=200), LIMITS).sampling.max_tokens == 200
    with pytest.raises(InvalidInput, match="at most 200"):
        check_question(body(max_tokens=201), LIMITS)


@pytest.mark.parametrize("limit", [DEFAULT_MAX_TOKENS - 1, DEFAULT_MAX_TOKENS + 1])
def test_without_a_length_an_answer_has_the_default_one_within_the_servers_limit(
    limit: int,
) -> None:
    limits = ServerConfig(max_answer_tokens=limit)
    assert check_question(body(), limits).sampling.max_tokens == min(limit, DEFAULT_MAX_TOKENS)


@pytest.mark.parametrize(("asked", "used"), [(0.0, 0.0), (1e-300, 0.0), (9e-4, 0.0), (0.7, 0.7)])
def test_a_temperature_that_would_overflow_is_greedy(asked: float, used: float) -> None:
    assert check_question(body(temperature=asked), LIMITS).sampling.temperature == used
