"""Excerpts that are held out are never trained on, nor are their wordings; the list says which."""

import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.training.test_templates import RECORD
from training import held_out
from training.data.excerpt_split import (
    EVALUATION,
    RELEASE,
    TRAIN,
    excerpt_id,
    excerpts,
    held_out_ids,
    read_excerpts,
)
from training.data.needles import draw_needle
from training.data.phrasing import StyleConfig
from training.data.templates import parse_record
from training.held_out import failures, listed_templates, wordings_of, wordings_of_history

LEAST = 1000  # excerpts of each set that is held out


def test_every_listed_excerpt_is_there_and_none_of_its_wordings_is_trained_on():
    assert failures() == {}


def test_the_sides_share_no_excerpt_and_are_large():
    sections = held_out_ids()
    assert sections.keys() == {EVALUATION, RELEASE}
    assert sections[EVALUATION].isdisjoint(sections[RELEASE])
    assert all(len(excerpts(side)) == len(sections[side]) > LEAST for side in sections)
    every = [excerpt_id(record) for record in read_excerpts()]
    assert len(set(every)) == len(every)
    assert len(excerpts(TRAIN)) == len(every) - sum(map(len, sections.values()))


def test_nothing_that_training_draws_is_listed():
    listed = {one.statements[0].lower() for one in excerpts(EVALUATION) + excerpts(RELEASE)}
    trained = {one.statements[0].lower() for one in excerpts(TRAIN)}
    rng, drawn = Random(6), set()
    for _ in range(800):
        drawn |= draw_needle(rng, StyleConfig(), 1500).claims
    assert len(drawn & trained) > 150
    assert not drawn & listed


def test_an_excerpt_that_is_edited_is_another_one():
    record = parse_record(RECORD)
    tag, text = record[-1]
    assert excerpt_id(record) == excerpt_id(parse_record(RECORD))
    assert excerpt_id(record) != excerpt_id([*record[:-1], (tag, text.replace("wrench", "key"))])


def test_wordings_are_the_same_up_to_slots_case_and_marks():
    assert set(wordings_of("What [is|was] {E}'s {A}, please?")) == {
        "what is {}'s {} please", "what was {}'s {} please",
    }  # fmt: skip
    assert list(wordings_of("{a:place}: {b}")) == ["{} {}"]


def test_what_may_not_stand_in_the_list_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = next(id for id in map(excerpt_id, read_excerpts()) if id not in
                   frozenset().union(*held_out_ids().values()))  # fmt: skip
    ours = min(held_out_ids()[EVALUATION])
    monkeypatch.setattr(
        held_out,
        "held_out_ids",
        lambda: {EVALUATION: {"0" * 16, trained, ours}, RELEASE: frozenset()},
    )
    found = failures()
    assert found["0" * 16] == "names no excerpt"
    assert found[trained].startswith("training says today")
    assert ours not in found
    questions = {wording for record in excerpts(EVALUATION) + excerpts(RELEASE)
                 for text, _ in record.questions for wording in wordings_of(text)}  # fmt: skip
    assert "in an earlier commit" in failures(frozenset(questions))[ours]


def test_templates_of_every_source_are_compared():
    templates = set(listed_templates())
    assert "What is {K} set to?" in templates
    assert "Who checks {obj} before {ev}?" in templates
    assert any("{NP}" not in one and "the {A} of {E}" in one for one in templates)


def test_history_knows_what_was_trained_on_before_it_was_edited(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b",
                        *arguments], check=True, capture_output=True)  # fmt: skip

    def commit(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        git("add", ".")
        git("commit", "-qm", "step")

    def record(question: str) -> str:
        return f"S {{n:count}} swans crossed the {{p:place}} road\nQ {question}?=n\n"

    old, table = "reader/data/excerpts/swans.txt", "training/data/tables/excerpts/swans.txt"
    git("init", "-q")
    commit(old, record("How many swans left"))
    (tmp_path / old).unlink()
    commit(table, "# Of birds.\n\n" + record("How many swans went"))
    listed = excerpt_id(parse_record(record("How many swans came")))
    (tmp_path / held_out.LIST).write_text(f"= evaluation\n{listed}\n")
    commit(table, record("How many swans came"))
    found = {one for one in wordings_of_history(tmp_path) if one.startswith("how")}
    assert found == {"how many swans left", "how many swans went"}
