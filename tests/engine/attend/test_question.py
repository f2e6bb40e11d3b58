"""A question's attention state."""

import math

import pytest
import torch
from torch.testing import assert_close

from engine.attend.clusters import FullClusterAttention, SparseClusterAttention
from engine.attend.question import QuestionState, open_question
from engine.config import LookupConfig
from engine.document.budget import EXACT, Thresholds
from engine.document.cache import DocumentCache
from engine.kernels.shared.score_clusters import AGGREGATIONS
from engine.kernels.shared.scores import visible
from engine.model.attention import forward
from engine.model.loader import LoadedModel
from tests.models import FAMILIES, loaded, prose, read

TEXT = prose(400)
NO_THRESHOLDS = Thresholds(-math.inf, -math.inf)


@pytest.fixture(scope="module", params=["llama", "llama-mha", "llama-gqa4", "gemma2"])
def model(request: pytest.FixtureRequest) -> LoadedModel:
    return loaded(FAMILIES[request.param])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, TEXT)


def logits(model: LoadedModel, state: QuestionState, *passes: int) -> torch.Tensor:
    """Of a question's last token, sent in passes of given lengths."""
    ids = model.prompt.encode_question("Who counted the letters?")
    *early, last = ids.split([*passes, len(ids) - sum(passes)])
    for part in early:
        forward(model.model, part, state.position, state)
    return forward(model.model, last, state.position, state)[-1]


@pytest.mark.parametrize("how", AGGREGATIONS)
@pytest.mark.parametrize("levels", [1, 2])
def test_a_lookup_without_thresholds_is_exact(
    model: LoadedModel, document: DocumentCache, levels: int, how: str
) -> None:
    reach = SparseClusterAttention(NO_THRESHOLDS, LookupConfig(levels, how))
    state = QuestionState(document, reach, reach)
    exact = logits(model, open_question(document, EXACT), 5)
    assert_close(logits(model, state, 5), exact, rtol=0, atol=1e-4)
    assert state.meter.share() > 1.0  # all that exact reads, and the centroids


@pytest.mark.parametrize("passes", [(1,), (5, 9), (1, 1, 1, 1)])
def test_a_question_may_come_in_any_passes(
    model: LoadedModel, document: DocumentCache, passes: tuple[int, ...]
) -> None:
    whole = logits(model, open_question(document, EXACT))
    parts = logits(model, open_question(document, EXACT), *passes)
    assert_close(parts, whole, rtol=0, atol=1e-4)


def test_the_position_goes_on_where_the_document_ends(
    model: LoadedModel, document: DocumentCache
) -> None:
    state = open_question(document, EXACT)
    assert state.position == document.num_tokens == 401
    forward(model.model, torch.tensor([9, 9, 9]), state.position, state)
    assert state.position == 404
    forward(model.model, torch.tensor([9]), state.position, state)
    assert state.position == 405


def test_prefill_and_decoding_reach_as_each_was_told(
    model: LoadedModel, document: DocumentCache
) -> None:
    nothing = SparseClusterAttention(Thresholds(math.inf, math.inf), document.lookup)
    for reaches in ((FullClusterAttention(), nothing), (nothing, FullClusterAttention())):
        state = QuestionState(document, *reaches)
        logits(model, state, 5)
        shares = (state.meter.share(0, 1), state.meter.share(1))
        assert shares[reaches.index(nothing)] < shares[1 - reaches.index(nothing)] == 1.0


def test_a_question_leaves_the_document_as_it_was(
    model: LoadedModel, document: DocumentCache
) -> None:
    before = [tensor.clone() for layer in document.layers for tensor in layer.tensors()]
    first = logits(model, open_question(document, EXACT))
    assert torch.equal(logits(model, open_question(document, EXACT)), first)
    after = [tensor for layer in document.layers for tensor in layer.tensors()]
    assert all(map(torch.equal, before, after))


def test_tokens_see_what_came_before_within_the_window() -> None:
    at = torch.arange(5)
    assert visible(at[3:], at, None).int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert visible(at[3:], at, 2).int().tolist() == [[0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    assert visible(at[:1], at - 3, 3).int().tolist() == [[0, 1, 1, 1, 0]]
