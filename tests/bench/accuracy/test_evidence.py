"""What the benchmark of evidence asks, and what it makes of the rankings."""

import gzip
import json
from pathlib import Path

import pytest

from bench.accuracy.evidence import Ranked, fit, natural_texts, parse, summarise
from engine.model.fingerprint import weights_fingerprint
from reader import WEIGHTS

ARTICLE = {
    "title": "Lights",
    "paragraphs": [
        {
            "context": "The lamp burns oil.  It was lit in 1871.",
            "qas": [
                {"question": "What burns?", "answers": [{"text": "oil"}]},
                {"question": "Ambiguous?", "answers": [{"text": "l"}]},
            ],
        }
    ],
}
STORY = {"title": "Goose", "sections": ["A goose laid an egg."],
         "qas": [{"question": "What was laid?", "answers": ["an egg."]}]}  # fmt: skip


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("training.data.natural.is_held_out", lambda title: True)
    for name, content in (
        ("squad/train-v1.1.json.gz", {"data": [ARTICLE]}),
        ("fairytaleqa/train.json.gz", {"data": [STORY]}),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(gzip.compress(json.dumps(content).encode()))
    return tmp_path


def test_questions_have_answers_that_stand_at_one_place(data: Path) -> None:
    texts = list(natural_texts(data, 10, held_out=True))
    assert [text.source for text in texts] == ["squad", "fairytaleqa"]
    asked = [
        (question, text.text[start:end])
        for text in texts
        for question, ((start, end),) in text.questions
    ]
    assert asked == [("What burns?", "oil"), ("What was laid?", "an egg")]
    assert list(natural_texts(data, 10, held_out=False)) == []


def ranked(source: str, *, evidence: bool, bm25: bool) -> Ranked:
    hits = {"evidence": evidence, "attention": False, "lexical": bm25, "bm25": bm25}
    shares, lexical = (0.0, 1.0), (1.0, 0.5)
    return Ranked(source, "?", hits, hits, shares, lexical, frozenset({1}))


def test_planted_facts_are_counted_apart_and_differences_paired() -> None:
    found = [ranked("squad", evidence=True, bm25=number > 2) for number in range(10)]
    found.append(ranked("planted", evidence=False, bm25=False))
    options = parse(["--data", ".", "--model", str(WEIGHTS)])
    result = summarise(found, options)
    assert result["weights"] == weights_fingerprint(WEIGHTS)
    assert (result["natural"]["questions"], result["planted"]["questions"]) == (10, 1)
    above = result["natural"]["hit_at_1_above_bm25"]["evidence"]
    assert above["points"] == pytest.approx(0.3)
    assert above["interval"][0] < 0.3 < above["interval"][1]
    assert result["planted"]["hit_at_3"]["evidence"]["share"] == 0.0


def test_the_fit_prefers_the_weight_that_finds_most() -> None:
    (_, _, best), *_, (_, _, worst) = fit([ranked("squad", evidence=True, bm25=True)])
    assert best >= 0.75
    assert worst < 0.75
