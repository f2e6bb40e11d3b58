"""Squared attention weights of listed tokens in Triton, and in torch, against a plain sum."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.shared.attention_mass import Listed, note_weights, note_weights_reference
from tests.engine.kernels.launched import (
    DEVICE,
    DTYPES,
    TOLERANCE,
    assert_guards,
    beside,
    guarded,
)
from tests.engine.naive import normal

kernel = pytest.importorskip("engine.kernels.shared.triton.attention_mass")
NUM_TOKENS, SCALE = 230, 0.2
KEPT = ((0, 3), (40, 90), (149, 150)), (), ((0, 150),)  # runs of clustered tokens, by head
PROGRAMS = 6  # few: some take several tiles
IMPLEMENTATIONS = {
    "reference": note_weights_reference,
    "kernel": kernel.note_weights_triton,
}


def listed(piece: int) -> Listed:
    """The kept runs, one by one or cut into pieces; what is behind them is out of range."""
    rows = []
    for runs in KEPT:
        if piece == 1:
            rows.append([token for start, end in runs for token in range(start, end)])
        else:
            cut = [(at, min(at + piece, end)) for s, end in runs for at in range(s, end, piece)]
            rows.append([start * 32 + end - start for start, end in cut])
    items = torch.full((len(KEPT), 170), 123456789, dtype=torch.int32)
    for head, row in enumerate(rows):
        items[head, : len(row)] = torch.tensor(row, dtype=torch.int32)
    counts = torch.tensor([len(row) for row in rows], dtype=torch.int32)
    return Listed(beside(items.to(DEVICE)), beside(counts.to(DEVICE)), piece)


def scored(query: Tensor, keys: Tensor, anchors: int, softcap: float | None, piece: int) -> Listed:
    """The same with the scores of listed tokens alone; nothing else of the keys is left."""
    found = (query.double() @ keys[:, anchors:].double().mT * SCALE).float()
    found = found if softcap is None else softcap * torch.tanh(found / softcap)
    for head, runs in enumerate(KEPT):
        kept = torch.zeros(found.shape[2], dtype=torch.bool)
        for start, end in runs:
            kept[start:end] = True
        found[head, :, ~kept] = torch.nan
    keys[:, anchors:] = torch.nan
    return replace(listed(piece), scores=beside(found))


def plain_sum(
    query: Tensor, lse: Tensor, keys: Tensor, places: Tensor, anchors: int, softcap: float | None
) -> Tensor:
    mass = torch.zeros(NUM_TOKENS, dtype=torch.float64)
    for head, runs in enumerate(KEPT):
        seen = [*range(anchors)] + [anchors + t for start, end in runs for t in range(start, end)]
        for token in seen:
            score = query[head].double() @ keys[head, token].double() * SCALE
            score = score if softcap is None else softcap * torch.tanh(score / softcap)
            mass[places[head, token]] += (score - lse[head]).exp().square().sum().cpu()
    return mass


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("group", "anchors", "piece", "softcap"), [(4, 9, 8, None), (1, 0, 1, 2.0), (3, 70, 1, None)]
)
def test_squares_of_weights_are_added_at_the_tokens_places(
    dtype: torch.dtype,
    name: str,
    known: bool,
    group: int,
    anchors: int,
    piece: int,
    softcap: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "PROGRAMS", PROGRAMS)
    heads = len(KEPT)
    query = beside(normal(heads, group, 32, dtype=dtype, seed=1).to(DEVICE))
    held = normal(heads, anchors + 150 + 5, 32, dtype=dtype, seed=2).to(DEVICE)
    held[:, anchors + 150 :] = torch.nan
    keys = held[:, : anchors + 150]
    places = torch.stack([torch.randperm(NUM_TOKENS)[: anchors + 150] for _ in range(heads)])
    lse = beside((normal(heads, group, seed=3) + 2.0).to(DEVICE))
    mass, whole = guarded(torch.ones(NUM_TOKENS, device=DEVICE))
    expected = 1.0 + plain_sum(query, lse, keys, places, anchors, softcap)
    given = scored(query, keys, anchors, softcap, piece) if known else listed(piece)
    IMPLEMENTATIONS[name](
        mass,
        query,
        lse,
        keys,
        places.int().to(DEVICE),
        given,
        num_anchors=anchors,
        scale=SCALE,
        softcap=softcap,
    )
    limit = TOLERANCE[dtype]
    assert_close(mass.cpu().double(), expected, rtol=10 * limit, atol=limit)
    assert_guards(whole)


def test_shapes_that_do_not_fit_are_refused() -> None:
    query, keys = normal(3, 4, 32), normal(2, 50, 32)
    with pytest.raises(ShapeError, match="do not fit"):
        note_weights(
            torch.zeros(60),
            query,
            torch.zeros(3, 4),
            keys,
            torch.zeros(2, 50, dtype=torch.int32),
            listed(1),
            num_anchors=3,
            scale=SCALE,
        )
    with pytest.raises(ShapeError, match="Scores"):
        note_weights(
            torch.zeros(60),
            query,
            torch.zeros(3, 4),
            normal(3, 50, 32),
            torch.zeros(3, 50, dtype=torch.int32),
            replace(listed(1), scores=torch.zeros(3, 4, 50)),
            num_anchors=3,
            scale=SCALE,
        )
