"""Reading a whole document."""

from dataclasses import replace

import pytest
import torch

from common.errors import DocumentTooLong, EmptyDocument, JobCancelled, UnknownPlugin
from engine.config import LookupConfig
from engine.document.cache import DocumentCache, Page
from engine.model.loader import LoadedModel
from precompute import build as reading
from precompute.build import precompute_document
from tests.models import FAMILIES, SETTINGS, loaded, prose, read, sizes

TEXT = prose(400)
PHASES = ["prefill", "cluster", "calibrate"]
Told = list[tuple[str, int, int]]


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


def same(one: DocumentCache, other: DocumentCache) -> bool:
    """Bit by bit."""
    tensors = zip(
        [tensor for layer in one.layers for tensor in layer.tensors()],
        [tensor for layer in other.layers for tensor in layer.tensors()],
        strict=True,
    )
    return one.curves == other.curves and all(torch.equal(*pair) for pair in tensors)


def test_reading_twice_gives_the_same_cache(model: LoadedModel) -> None:
    assert same(read(model, TEXT), read(model, TEXT))


def test_another_text_gives_another_cache(model: LoadedModel) -> None:
    assert not same(read(model, TEXT), read(model, prose(400, seed=1)))


def test_the_document_is_described(model: LoadedModel) -> None:
    pages = [(1, 0, 150), (2, 150, 400)]
    settings = replace(SETTINGS, num_sinks=7, lookup=LookupConfig(levels=1, aggregation="mean"))
    document = precompute_document(model, TEXT, pages, settings, lambda *_: None)
    assert document.text == TEXT
    assert document.pages == (Page(1, 0, 150), Page(2, 150, 400))
    assert document.lookup == settings.lookup
    assert (document.num_tokens, document.num_sinks) == (401, 7)
    assert len(document.layers) == model.spec.num_layers
    assert torch.equal(document.ids, model.prompt.encode_document(TEXT).ids)


def test_layers_with_a_window_are_kept_as_windows() -> None:
    document = read(loaded(FAMILIES["gemma2"]), TEXT)
    assert [layer.window for layer in document.layers] == [96, None]
    assert [layer.num_tokens for layer in document.layers] == [96, 401]
    assert [layer.has_clusters for layer in document.layers] == [False, True]


def test_progress_goes_through_the_phases_and_never_back(model: LoadedModel) -> None:
    told: Told = []
    settings = replace(SETTINGS, num_probes=24)  # more than one batch
    read(model, TEXT, settings, listener=lambda *step: told.append(step))
    assert list(dict.fromkeys(phase for phase, _, _ in told)) == ["tokenize", *PHASES]
    while told[0] == ("tokenize", 0, 0):
        told.pop(0)
    assert {total for _, _, total in told} == {401}
    for phase in PHASES:
        done = [tokens for name, tokens, _ in told if name == phase]
        assert done == sorted(done)
        assert 0 <= done[0] <= done[-1] == 401
        assert len(done) >= 2
    assert told[0] == ("prefill", 0, 401)


@pytest.mark.parametrize("phase", ["tokenize", *PHASES])
def test_progress_that_raises_stops_the_work(model: LoadedModel, phase: str) -> None:
    told: Told = []

    def cancel(*step: object) -> None:
        told.append(step)  # type: ignore[arg-type]
        if step[0] == phase:
            raise JobCancelled("The document was deleted.")

    with pytest.raises(JobCancelled):
        read(model, TEXT, listener=cancel)
    assert [name for name, _, _ in told].count(phase) == 1
    assert told[-1][0] == phase


def test_progress_is_told_more_often_than_it_changes(model: LoadedModel) -> None:
    """So that the work can be stopped in the middle of a step."""
    told: Told = []
    read(model, TEXT, listener=lambda *step: told.append(step))
    for phase in PHASES:
        steps = [tokens for name, tokens, _ in told if name == phase]
        assert len(steps) >= len(set(steps)) + model.spec.num_layers


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any work that is done all the same fails."""
    monkeypatch.setattr(reading, "prefill", None)


def never(*_: object) -> None:
    raise AssertionError("Progress was told, so work had begun.")


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_an_empty_document_is_refused(model: LoadedModel, no_work: None, text: str) -> None:
    with pytest.raises(EmptyDocument):
        read(model, text, listener=never)


def narrow_model() -> LoadedModel:
    return loaded(type(FAMILIES["llama"])(**sizes(max_position_embeddings=600)))


def test_a_document_too_long_is_refused_before_any_work(no_work: None) -> None:
    settings = replace(SETTINGS, reserve_tokens=100)
    with pytest.raises(DocumentTooLong, match=r"has 500 characters.*takes 500"):
        read(narrow_model(), prose(500), settings, listener=never)


def test_a_document_of_too_many_tokens_is_refused_as_soon_as_they_are_too_many(
    no_work: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = narrow_model()
    monkeypatch.setattr(type(model.prompt), "most_chars", lambda *_: None)
    parts: list[str] = []
    seen = set()

    def note(*step: object) -> None:
        seen.add(step)
        parts.append("")

    text = prose(300_000)
    with pytest.raises(DocumentTooLong, match=r"at least [\d,]+ tokens.*takes 344"):
        read(model, text, listener=note)
    assert seen == {("tokenize", 0, 0)}
    assert len(parts) < 5, "the rest was not tokenized"


def test_the_longest_document_is_read_and_leaves_room_for_questions() -> None:
    settings = replace(SETTINGS, reserve_tokens=100)
    assert read(narrow_model(), prose(499), settings).num_tokens == 500


def test_the_reserve_never_takes_more_than_half_of_the_context() -> None:
    settings = replace(SETTINGS, reserve_tokens=10_000)
    assert read(narrow_model(), prose(299), settings).num_tokens == 300
    with pytest.raises(DocumentTooLong, match="takes 300"):
        read(narrow_model(), prose(300), settings)


def test_a_character_may_be_many_tokens() -> None:
    """Characters are counted first, but tokens decide."""
    model = narrow_model()
    with pytest.raises(DocumentTooLong, match="tokens"):
        read(model, "\U0001f4a5" * 150)
    assert read(model, "\U0001f4a5" * 80).num_tokens == 321


def test_an_unknown_clustering_is_refused_before_any_work(
    model: LoadedModel, no_work: None
) -> None:
    settings = replace(SETTINGS, clustering="nonsense")
    with pytest.raises(UnknownPlugin, match=r"nonsense.*choose"):
        read(model, TEXT, settings, listener=never)


@pytest.mark.parametrize("num_chars", [1, 2, 19, 20, 21, 40])
def test_documents_around_the_size_of_sinks_and_tail_are_read(
    model: LoadedModel, num_chars: int
) -> None:
    document = read(model, TEXT[:num_chars])
    assert document.num_tokens == num_chars + 1
    assert document.num_sinks == min(4, num_chars + 1)
    assert all(layer.has_clusters == (num_chars + 1 > 20) for layer in document.layers)
