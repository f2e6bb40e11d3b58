"""Questions that benches ask together answer what they answer alone."""

import pytest

from bench.accuracy import asking
from bench.accuracy.asking import Asked, ask_all
from engine.decode.answer import Answer
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT
from engine.engine import Engine
from tests.models import FAMILIES, HALF, loaded, prose, read


@pytest.mark.parametrize("budget", [0.3, EXACT])
def test_answers_of_a_batch_are_those_of_questions_asked_alone(
    budget: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ROWS", 2)  # the last batch has one row
    model = loaded(FAMILIES["llama"], plan=HALF)
    document, engine = read(model, prose(1500)), Engine(model)
    asked = [
        Asked(document, question, budget, Sampling(max_tokens=tokens, mode=mode))
        for question, tokens, mode in (
            ("Who sold the maps?", 12, "free"),
            ("When does the gate close, and who keeps the key?", 5, "quote"),
            ("How many?", 9, "free"),
        )
    ]
    together = ask_all(engine, asked)
    alone = []
    for one in asked:
        *_, last = engine.answer(document, one.question, budget=one.budget, sampling=one.sampling)
        assert isinstance(last, Answer)
        alone.append(last)
    assert [answer.text for answer in together] == [answer.text for answer in alone]
    assert [answer.quotes for answer in together] == [answer.quotes for answer in alone]
    assert [answer.budget for answer in together] == [answer.budget for answer in alone]
    assert len({answer.text for answer in together}) == len(asked)
