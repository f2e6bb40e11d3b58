"""Passkey documents."""

import random
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from common.errors import InvalidInput
from engine.model.loader import LoadedModel
from precompute.heads.duo.config import DuoConfig, Recipe
from precompute.heads.duo.haystack import Haystack, open_haystack
from precompute.heads.duo.passkeys import PasskeyDocument, Passkeys, hide
from tests.models import FAMILIES, byte_tokenizer, loaded

CONFIG = DuoConfig(min_tokens=1500, max_tokens=3000, num_passkeys=4, max_words=5)
WAY = "The pass phrase of"


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


def passkeys(model: LoadedModel, config: DuoConfig = CONFIG) -> Passkeys:
    return Passkeys.of(model, config, Haystack())


def text_of(model: LoadedModel, document: PasskeyDocument) -> str:
    return str(model.tokenizer.decode(document.ids))


def names_of(model: LoadedModel, document: PasskeyDocument) -> list[str]:
    """What is asked for, as in "keeper of Bacorda Bell"."""
    turns = text_of(model, document).split("<|question|>What is the ")[1:]
    return [turn.partition("?")[0] for turn in turns]


RECIPES = pytest.mark.parametrize("recipe", get_args(Recipe))


@RECIPES
def test_every_passkey_is_stated_and_asked_for(model: LoadedModel, recipe: Recipe) -> None:
    document = passkeys(model, replace(CONFIG, recipe=recipe)).document(0)
    text, *turns = text_of(model, document).split("<|question|>")
    assert text.count(" is: ") == len(turns) == 4
    for name, turn in zip(names_of(model, document), turns, strict=True):
        assert f"The {name} is: {turn.partition('<|answer|>')[2].removesuffix('<|end|>')}." in text


@RECIPES
def test_a_token_knows_its_turn(model: LoadedModel, recipe: Recipe) -> None:
    document = passkeys(model, replace(CONFIG, recipe=recipe)).document(0)
    parts = [model.tokenizer.decode(document.ids[document.turns == turn]) for turn in range(5)]
    assert "".join(parts) == text_of(model, document)
    assert "<|question|>" not in parts[0]
    for part in parts[1:]:
        assert part.startswith("<|question|>")
        assert part.count("<|") == 3  # its answer and its end


def test_served_passkeys_are_of_many_kinds_and_near_rivals(model: LoadedModel) -> None:
    made = passkeys(model, replace(CONFIG, num_passkeys=10))
    kinds = set[str]()
    for step in range(4):
        names = names_of(model, made.document(step))
        assert len(set(names)) == 10
        for part, most in ((0, 4), (1, 3), (2, 2)):  # of kinds, first and last names
            assert len({split_name(name)[part] for name in names}) <= most
        kinds |= {split_name(name)[0] for name in names}
    assert kinds == {"pass phrase", "badge number", "access code", "keeper"}


def split_name(name: str) -> tuple[str, str, str]:
    kind, _, person = name.partition(" of ")
    first, _, last = person.partition(" ")
    return kind, first, last


def test_the_papers_passkeys_are_pass_phrases_of_strangers(model: LoadedModel) -> None:
    made = passkeys(model, replace(CONFIG, num_passkeys=10, recipe="paper"))
    names = [split_name(name) for name in names_of(model, made.document(0))]
    assert {kind for kind, _, _ in names} == {"pass phrase"}
    assert len({first for _, first, _ in names}) == 10


def test_answers_are_where_their_tokens_are_foretold(model: LoadedModel) -> None:
    document = passkeys(model).document(0)
    foretold = model.tokenizer.decode(document.ids[(document.answers + 1)])
    turns = text_of(model, document).split("<|answer|>")[1:]
    assert foretold == "".join(turn.partition("<|question|>")[0] for turn in turns)


def test_a_template_that_ends_the_answer_itself_is_given_no_second_end() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "<|question|>{{", "<|end|><|question|>{{"
    )
    model = loaded(FAMILIES["llama"], tokenizer)
    document = passkeys(model).document(0)
    assert text_of(model, document).count("<|end|>") == CONFIG.num_passkeys


def test_a_step_has_one_document(model: LoadedModel) -> None:
    one, again, next_one = (passkeys(model).document(step) for step in (3, 3, 4))
    assert one.ids.tolist() == again.ids.tolist()
    assert one.ids.tolist() != next_one.ids.tolist()
    other = passkeys(model, replace(CONFIG, seed=1)).document(3)
    assert other.ids.tolist() != one.ids.tolist()


def test_lengths_and_passkeys_vary_between_their_limits(model: LoadedModel) -> None:
    made = passkeys(model, replace(CONFIG, recipe="paper"))
    documents = [made.document(step) for step in range(30)]
    lengths = [len(document.ids) for document in documents]
    assert 1400 <= min(lengths) < 1800
    assert 2700 < max(lengths) <= 3100
    words = {
        len(line.split(" is: ")[1].split("."[0])[0].split())
        for document in documents
        for line in text_of(model, document).split(WAY)[1:]
    }
    assert words == {1, 2, 3, 4, 5}


def test_a_context_too_small_is_refused(model: LoadedModel) -> None:
    with pytest.raises(InvalidInput, match="at most 4096"):
        passkeys(model, replace(CONFIG, min_tokens=5000, max_tokens=9000))


def test_facts_stand_between_sentences_at_all_depths() -> None:
    text = " ".join(f"Sentence {number} ends." for number in range(200))
    depths = []
    for seed in range(40):
        hidden = hide(["A FACT."], text, random.Random(seed))
        assert hidden.replace("A FACT. ", "") == text
        depths.append(hidden.index("A FACT.") / len(hidden))
    assert min(depths) < 0.2
    assert max(depths) > 0.8


def test_a_folders_texts_are_a_haystack(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("second words here.")
    (tmp_path / "a.md").write_text("first words here.")
    (tmp_path / "c.bin").write_text("never")
    drawn = open_haystack(str(tmp_path)).draw(500, random.Random(0))
    assert len(drawn) == 500
    assert {"second", "first"} < set(drawn.split())
    assert "never" not in drawn


def test_no_text_is_no_haystack(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no text"):
        open_haystack(str(tmp_path))
