"""Answers of models that think: kept apart, bounded by a limit of their own, no evidence."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, PreTrainedTokenizerFast

from engine.config import PromptConfig
from engine.decode import running_answer
from engine.decode.answer import Answer, TextDelta
from engine.decode.sampling import Sampling
from engine.decode.token_limits import MARK_TOKENS
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import LoadedModel
from engine.model.thinking import Part, find_thinking_format
from tests.models import TEMPLATE, answer, byte_tokenizer, loaded, prose, read, sizes

QUESTION = "Who sold the maps?"
END = 3
QWEN = TEMPLATE + "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
HARMONY = TEMPLATE.replace("add_generation_prompt %}", "add_generation_prompt %}<|start|>assistant")
CHANNELS = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>"]


def tokenizer_with(tokens: list[str], template: str) -> PreTrainedTokenizerFast:
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(tokens)
    tokenizer.chat_template = template
    return tokenizer


def thinker(tokens: list[str], template: str, *, context: int = 4096, **on: Any) -> LoadedModel:
    config = LlamaConfig(**sizes() | {"vocab_size": 272, "max_position_embeddings": context})
    prompt = PromptConfig(template_arguments=on)
    return loaded(config, tokenizer_with(tokens, template), prompt=prompt)


@pytest.fixture(scope="module")
def qwen() -> LoadedModel:
    """A model that may think."""
    return thinker(["<think>", "</think>"], QWEN, enable_thinking=True)


@pytest.fixture(scope="module")
def document(qwen: LoadedModel) -> DocumentCache:
    return read(qwen, prose(600))


Says = Callable[[LoadedModel, str], None]


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Says:
    """Make a model write given text and then end, unless its tokens are forced."""

    def script(model: LoadedModel, text: str) -> None:
        ids = model.tokenizer(text, add_special_tokens=False, split_special_tokens=False)
        tokens = [*ids["input_ids"], model.eos_ids[-1]]

        class Scripted:
            def __init__(self, *_: object) -> None:
                self._left = list(tokens)

            takes_best = takes_best_allowed = False

            def draw(self, question: list[int], answer: list[int], logits: Tensor) -> Tensor:
                return torch.tensor(self._left.pop(0) if self._left else 0)

        monkeypatch.setattr(running_answer, "Sampler", Scripted)

    return script


def ask(
    model: LoadedModel, document: DocumentCache, budget: float = EXACT, **sampling: Any
) -> tuple[str, str, Answer]:
    """What came as thinking, what came as answer, and the whole answer."""
    how = Sampling(**sampling)
    *deltas, last = answer(model, document, QUESTION, budget=budget, sampling=how)
    assert isinstance(last, Answer)
    return spoken(deltas, thinking=True), spoken(deltas, thinking=False), last


def spoken(deltas: Iterable[TextDelta | Answer], *, thinking: bool) -> str:
    return "".join(
        one.text for one in deltas if isinstance(one, TextDelta) and one.is_thinking == thinking
    )


def test_thinking_is_kept_apart_from_the_answer(
    qwen: LoadedModel, document: DocumentCache, says: Says
) -> None:
    says(qwen, "<think>\nMaps? 日本.\n</think>\n\nMira did.")
    thought, text, found = ask(qwen, document)
    assert (text, found.text, found.finish_reason) == ("Mira did.", "Mira did.", "stop")
    assert thought.strip() == "Maps? 日本."
    assert found.thinking is not None
    assert (found.thinking.text, found.thinking.is_cut) == ("Maps? 日本.", False)
    assert found.usage.thinking_tokens == found.thinking.num_tokens == 19
    assert found.usage.completion_tokens == 19 + 9


def test_a_limit_of_tokens_is_the_answers_alone(
    qwen: LoadedModel, document: DocumentCache, says: Says
) -> None:
    says(qwen, "<think>" + "hm " * 60 + "</think>\n\nMira did.")
    _, text, found = ask(qwen, document, max_tokens=4)
    assert (text, found.finish_reason) == ("Mira", "length")


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_thinking_beyond_its_limit_is_ended_and_the_answer_begun(
    qwen: LoadedModel, document: DocumentCache, says: Says, limit: int
) -> None:
    says(qwen, "<think>Let me see.")
    _, text, found = ask(qwen, document, max_tokens=40, max_thinking_tokens=limit)
    assert found.thinking is not None
    assert found.thinking.is_cut
    assert found.thinking.text == "Let me see."[: max(0, limit - 1)].strip()
    rest = "Let me see."[max(0, limit - 1) :]
    assert text == found.text == rest.strip(), "the script goes on"
    assert found.usage.thinking_tokens == max(1, limit) + 3, "the end mark and a blank line"


def test_where_thinking_is_off_it_is_ended_at_once(says: Says) -> None:
    model = thinker(["<think>", "</think>"], QWEN)
    document = read(model, prose(300))
    says(model, "Mira.")
    _, text, found = ask(model, document)
    assert (text, found.thinking, found.usage.thinking_tokens) == ("Mira.", None, 0)
    says(model, "<think>No?")
    _, text, found = ask(model, document)
    assert found.thinking is not None
    assert (found.thinking.text, found.thinking.is_cut, text) == ("", True, "No?")


def test_thinking_may_begin_in_the_prompt(says: Says) -> None:
    model = thinker(["<think>", "</think>"], TEMPLATE + "<think>\n")
    document = read(model, prose(300))
    says(model, "Maps.</think>Mira.")
    thought, text, found = ask(model, document)
    assert (thought, text, found.finish_reason) == ("Maps.", "Mira.", "stop")
    says(model, "Maps.")
    thought, text, found = ask(model, document)
    assert (thought, text, found.text, found.evidence) == ("Maps.", "", "", ())


def test_channels_but_the_final_one_are_thinking(says: Says) -> None:
    model = thinker([*CHANNELS, "<|return|>"], HARMONY)
    eos_ids = (model.tokenizer.convert_tokens_to_ids("<|return|>"),)
    model = replace(model, generation=replace(model.generation, eos_ids=eos_ids))
    document = read(model, prose(300))
    says(
        model,
        "<|channel|>analysis<|message|>Maps.<|end|><|start|>assistant<|channel|>commentary"
        "<|message|> More.<|end|><|start|>assistant<|channel|>final<|message|>Mira.",
    )
    thought, text, found = ask(model, document)
    assert (thought, text, found.finish_reason) == ("Maps. More.", "Mira.", "stop")
    says(model, "<|channel|>analysis<|message|>Hm.")
    _, text, found = ask(model, document, max_thinking_tokens=11)
    assert found.thinking is not None
    assert (found.thinking.text, found.thinking.is_cut, text) == ("H", True, "m.")
    says(model, "No channel.")
    assert ask(model, document)[1] == "No channel."
    says(model, "Never mind.")
    assert ask(model, document, max_thinking_tokens=0)[1] == "Never mind."


def test_an_end_mark_of_a_channel_ends_no_answer() -> None:
    tokenizer = tokenizer_with(CHANNELS, HARMONY)
    found = find_thinking_format(tokenizer, ())
    assert found is not None
    assert tokenizer.convert_tokens_to_ids("<|end|>") == END
    assert END in found.marks


def test_tokenizers_without_marks_know_no_thinking() -> None:
    assert find_thinking_format(byte_tokenizer(), ()) is None


def test_a_parser_follows_tags_that_come_again() -> None:
    tags = find_thinking_format(tokenizer_with(["<think>", "</think>"], QWEN), ())
    assert tags is not None
    parser = tags.parser()
    parts = [parser.push(token) for token in (40, 260, 40, 261, 40, 260, 41)]
    assert [part.value[0] for part in parts] == ["a", "m", "t", "m", "a", "m", "t"]
    assert Part.MARK in parts


@pytest.mark.parametrize("budget", [0.5, EXACT])
def test_evidence_is_of_the_answer_alone(
    qwen: LoadedModel, document: DocumentCache, says: Says, budget: float
) -> None:
    """Another thought must leave no trace in the mass of the passes behind its end."""
    taken: list[Tensor] = []

    def passes(text: str) -> None:
        says(qwen, text)
        with Engine(qwen) as engine:
            running = engine.start(document, QUESTION, budget=budget, sampling=Sampling())
            while not running.is_finished:
                was = running.is_thinking
                engine.step([running])
                if was and not running.is_thinking:
                    assert running.state.mass is not None
                    taken.append(running.state.mass.on_tokens())
            engine.finish(running)
            assert running.state.mass is not None
            taken.append(running.state.mass.on_tokens())
            assert running.result().evidence

    passes("<think>Maps, maps and lamps.</think>Mira.")
    first, last = taken
    assert float(first.sum()) == 0.0
    assert float(last.sum()) > 0.0
    assert torch.isfinite(last).all()


def test_the_context_is_shared_so_that_the_answer_has_its_tokens(says: Says) -> None:
    model = thinker(["<think>", "</think>"], QWEN, context=512, enable_thinking=True)
    document = read(model, prose(200))
    says(model, "<think>" + "x" * 600)
    _, text, found = ask(model, document, max_tokens=50)
    used = found.usage
    assert found.thinking is not None
    assert found.thinking.is_cut
    assert len(text) == 50
    room = 512 - used.document_tokens - used.question_tokens
    assert used.thinking_tokens == room - 50 - MARK_TOKENS + 3
