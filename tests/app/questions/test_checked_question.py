"""A question is held to the limits of the server's own settings."""

from typing import Any

import pytest

from app.config import ServerConfig
from app.questions.checked_question import (
    DEFAULT_MAX_TOKENS,
    CheckedQuestion,
    check_question,
)
from app.questions.schemas import QuestionBody
from common.errors import EmptyQuestion, InvalidInput, QuestionTooLong
from engine.document.budget import AutoBudget
from engine.model.generation import GREEDY, GenerationDefaults

LIMITS = ServerConfig(max_question_chars=20, max_answer_tokens=200)


def body(question: str = "Who kept it?", **fields: Any) -> QuestionBody:
    return QuestionBody(question=question, **fields)


def checked(
    asked: QuestionBody, limits: ServerConfig = LIMITS, generation: GenerationDefaults = GREEDY
) -> CheckedQuestion:
    return check_question(asked, limits, generation)


def test_a_question_longer_than_the_servers_limit_is_refused() -> None:
    assert checked(body("x" * 20)).text == "x" * 20
    with pytest.raises(QuestionTooLong, match="has 21 characters; at most 20 fit") as refused:
        checked(body("x" * 21))
    assert refused.value.param == "question"


def test_blanks_around_a_question_do_not_count() -> None:
    assert checked(body(f"  {'x' * 20}\n")).text == "x" * 20
    with pytest.raises(EmptyQuestion):
        checked(body(" \n "))


def test_an_answer_longer_than_the_servers_limit_is_refused() -> None:
    assert checked(body(max_tokens=200)).sampling.max_tokens == 200
    with pytest.raises(InvalidInput, match="at most 200"):
        checked(body(max_tokens=201))


@pytest.mark.parametrize("limit", [DEFAULT_MAX_TOKENS - 1, DEFAULT_MAX_TOKENS + 1])
def test_without_a_length_an_answer_has_the_default_one_within_the_servers_limit(
    limit: int,
) -> None:
    limits = ServerConfig(max_answer_tokens=limit)
    assert checked(body(), limits).sampling.max_tokens == min(limit, DEFAULT_MAX_TOKENS)


@pytest.mark.parametrize(("asked", "used"), [(0.0, 0.0), (1e-300, 0.0), (9e-4, 0.0), (0.7, 0.7)])
def test_a_temperature_that_would_overflow_is_greedy(asked: float, used: float) -> None:
    assert checked(body(temperature=asked)).sampling.temperature == used


@pytest.mark.parametrize(("sampling", "used"), [("model", 0.6), ("greedy", 0.0)])
def test_the_models_own_way_counts_where_the_settings_say_so(sampling: str, used: float) -> None:
    limits = ServerConfig(sampling=sampling)  # type: ignore[arg-type]
    own = GenerationDefaults(temperature=0.6, top_k=20)
    assert checked(body(), limits, own).sampling.temperature == used
    assert checked(body(), limits, own).sampling.top_k == (20 if used else 0)
    assert checked(body(temperature=0.9), limits, own).sampling.temperature == 0.9


def test_more_thinking_than_the_servers_limit_is_refused() -> None:
    limits = ServerConfig(max_thinking_tokens=50)
    assert checked(body(), limits).sampling.max_thinking_tokens == 50
    assert checked(body(max_thinking_tokens=0), limits).sampling.max_thinking_tokens == 0
    with pytest.raises(InvalidInput, match="at most 50") as refused:
        checked(body(max_thinking_tokens=51), limits)
    assert refused.value.param == "max_thinking_tokens"


@pytest.mark.parametrize(
    ("setting", "asked", "has_document", "mode"),
    [
        ("free", None, True, "free"),
        ("quote", None, True, "quote"),
        ("quote", None, False, "free"),
        ("quote", "free", True, "free"),
        ("free", "quote", True, "quote"),
        ("auto", None, True, "free"),
    ],
)
def test_the_mode_is_the_requests_or_else_the_settings(
    setting: Any, asked: str | None, has_document: bool, mode: str
) -> None:
    limits = ServerConfig(answer_mode=setting)
    found = check_question(body(mode=asked), limits, has_document=has_document)
    assert found.sampling.mode == mode


def test_quotes_without_a_document_are_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing to quote") as refused:
        check_question(body(mode="quote"), LIMITS, has_document=False)
    assert refused.value.param == "mode"


def test_whether_repetition_ends_an_answer_is_the_requests_or_else_the_settings() -> None:
    off = ServerConfig(stop_repetition=False)
    assert checked(body()).sampling.stop_repetition
    assert not checked(body(stop_repetition=False)).sampling.stop_repetition
    assert not checked(body(), off).sampling.stop_repetition
    assert checked(body(stop_repetition=True), off).sampling.stop_repetition


def test_a_tolerance_belongs_to_the_budget_auto() -> None:
    limits = ServerConfig(auto_tolerance=0.1)
    assert checked(body(budget="auto"), limits).budget == AutoBudget(0.1)
    assert checked(body(budget="auto", tolerance=0.03), limits).budget == AutoBudget(0.03)
    with pytest.raises(InvalidInput, match="belongs to") as refused:
        checked(body(tolerance=0.03))
    assert refused.value.param == "tolerance"
