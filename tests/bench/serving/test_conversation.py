"""The conversation's benchmark: what it takes the ratio of, and that it refuses what differs."""

from argparse import Namespace

import pytest

from bench.serving import conversation
from reader import WEIGHTS


def test_a_small_run_finds_ratios_of_every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "QUESTIONS", conversation.QUESTIONS[:2])
    options = Namespace(
        model=str(WEIGHTS), drawn="", tokens=600, answer_tokens=4, repeats=1, device="cpu"
    )
    result = conversation.measure(options)
    assert result["different_answers"] == 0
    assert result["kept_bytes"] > 0
    for times in result["times_the_first_turn"].values():
        assert set(times) == {"turn_1", "turn_2"}
        assert times["turn_2"]["p50"] > 0
