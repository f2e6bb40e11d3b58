"""Composed wordings: many, free, and far from what is held out."""

from random import Random

import pytest

from training.data.facts import ask, draw_fact, state
from training.data.grammar import (
    RUN,
    draw_pattern,
    draw_typed_question,
    held_out_patterns,
    is_far,
    patterns_of,
    runs_of,
    tokens_of,
)
from training.data.phrasing import StyleConfig, say_sentence
from training.data.templates import slots_of

POOLS = {
    "statement": 12_000, "question": 12_000, "noun": 1500, "opening": 1000, "closing": 1000,
    "lead": 800, "finish": 400, "within": 500, "who type": 1000, "spelling type": 1000,
}  # fmt: skip


def test_a_pool_is_large_and_every_pattern_differs_from_the_held_out_ones():
    held_out = {tokens_of(pattern) for pattern in held_out_patterns()}
    runs = {run for tokens in held_out for run in runs_of(tokens, RUN)}
    for name, least in POOLS.items():
        pool = patterns_of(name)
        assert len(set(pool)) == len(pool) > least
        for pattern in pool:
            tokens = tokens_of(pattern)
            assert tokens not in held_out
            assert runs.isdisjoint(runs_of(tokens, RUN))


@pytest.mark.parametrize(
    "text",
    [
        "it is clear that {V} is the {A} of {E}",
        "after all, {E}, whose {A} is {V}, was seen",
        "one more thing: what was {NP}?",
        "it is worth remembering that ",
    ],
)
def test_what_holds_a_held_out_pattern_is_near(text):
    assert not is_far(text)
    assert is_far("in the end {V} makes up {NP}")


def test_patterns_have_the_slots_that_are_filled():
    for name in ("statement", "question", "noun"):
        for pattern in patterns_of(name):
            assert slots_of(pattern) <= {"E", "A", "V", "W"}
            assert {"E", "A"} <= slots_of(pattern)
            assert ("V" in slots_of(pattern)) == (name == "statement")
            assert not set("[]<_") & set(pattern.replace("<-", "").replace(" < ", ""))


def test_contrasts_are_composed_and_name_the_right_value():
    contrasts = [one for one in patterns_of("statement") if "{W}" in one]
    assert len(contrasts) > 500
    assert all("{V}" in one for one in contrasts)


@pytest.mark.parametrize("word", ["who", "clock", "how many", "spelling", "colour"])
def test_a_typed_question_is_one_of_its_type(word):
    rng = Random(3)
    drawn = {draw_typed_question(word, rng) for _ in range(50)}
    assert len(drawn) > 25
    assert drawn.isdisjoint(patterns_of("question"))
    assert draw_typed_question("", rng) in patterns_of("question")


def test_only_training_speaks_in_composed_wordings(monkeypatch):
    def refuse(name, rng):
        raise AssertionError(name)

    monkeypatch.setattr("training.data.phrasing.draw_pattern", refuse)
    monkeypatch.setattr("training.data.phrasing.draw_typed_question", refuse)
    rng, style = Random(4), StyleConfig(wordings="held_out", own=0.0)
    for _ in range(100):
        fact = draw_fact(rng, style)
        state(fact, rng, style)
        ask(fact, rng, style, "single")
    fact, trained = draw_fact(rng, StyleConfig()), StyleConfig(own=0.0)
    with pytest.raises(AssertionError):
        [state(fact, rng, trained) for _ in range(100)]


def test_training_says_one_fact_in_ever_new_ways():
    rng, style = Random(5), StyleConfig(own=0.0)
    fact = draw_fact(rng, style)
    said = [state(fact, rng, style).text for _ in range(600)]
    asked = [ask(fact, rng, style, "single").text for _ in range(600)]
    assert all(fact.value.lower() in text.lower() for text in said)
    assert len(set(said)) > 540
    assert len(set(asked)) > 500


def test_no_stop_follows_a_comma():
    rng = Random(6)
    for which in ("train", "held_out"):
        for _ in range(50):
            text = say_sentence("it is ten, as far as it goes,", rng, StyleConfig(wordings=which))
            assert ",," not in text
            assert ",." not in text


def test_draws_follow_the_seed():
    assert draw_pattern("noun", Random(7)) == draw_pattern("noun", Random(7))
