"""Squared attention weights of listed tokens in Triton, and in torch, against a plain sum."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.shared.accumulate_attention_mass import (
    AttendedTokens,
    AttentionMassInputs,
    accumulate_attention_mass,
    accumulate_attention_mass_reference,
)
from tests.engine.kernels.harness import (
    DEVICE,
    DTYPES,
    TOLERANCE,
    assert_guards,
    guarded,
    surrounded,
)
from tests.engine.naive import normal

pytest.importorskip("triton")

from engine.kernels.shared.triton import accumulate_attention_mass as kernel

NUM_TOKENS, SCALE = 230, 0.2
RUNS = ((0, 3), (40, 90), (149, 150)), (), ((0, 150),)  # runs of clustered tokens, by head
PROGRAMS = 6  # few: some take several tiles
IMPLEMENTATIONS = {
    "reference": accumulate_attention_mass_reference,
    "kernel": kernel.accumulate_attention_mass_triton,
}


def attended(segment_size: int) -> AttendedTokens:
    """The runs' tokens, or the runs cut into segments; entries behind them are out of range."""
    rows = []
    for runs in RUNS:
        if segment_size == 1:
            rows.append([token for start, end in runs for token in range(start, end)])
        else:
            cut = [
                (at, min(at + segment_size, end))
                for s, end in runs
                for at in range(s, end, segment_size)
            ]
            rows.append([start * 32 + end - start for start, end in cut])
    entries = torch.full((len(RUNS), 170), 123456789, dtype=torch.int32)
    for head, row in enumerate(rows):
        entries[head, : len(row)] = torch.tensor(row, dtype=torch.int32)
    counts = torch.tensor([len(row) for row in rows], dtype=torch.int32)
    return AttendedTokens(
        surrounded(entries.to(DEVICE)), surrounded(counts.to(DEVICE)), segment_size
    )


def with_scores(
    query: Tensor, keys: Tensor, anchors: int, softcap: float | None, segment_size: int
) -> AttendedTokens:
    """The same with the scores of the listed tokens; the clustered keys become nans."""
    found = (query.double() @ keys[:, anchors:].double().mT * SCALE).float()
    found = found if softcap is None else softcap * torch.tanh(found / softcap)
    for head, runs in enumerate(RUNS):
        is_listed = torch.zeros(found.shape[2], dtype=torch.bool)
        for start, end in runs:
            is_listed[start:end] = True
        found[head, :, ~is_listed] = torch.nan
    keys[:, anchors:] = torch.nan
    return replace(attended(segment_size), scores=surrounded(found))


def plain_sum(
    query: Tensor, lse: Tensor, keys: Tensor, places: Tensor, anchors: int, softcap: float | None
) -> Tensor:
    mass = torch.zeros(NUM_TOKENS, dtype=torch.float64)
    for head, runs in enumerate(RUNS):
        seen = [*range(anchors)] + [anchors + t for start, end in runs for t in range(start, end)]
        for token in seen:
            score = query[head].double() @ keys[head, token].double() * SCALE
            score = score if softcap is None else softcap * torch.tanh(score / softcap)
            mass[places[head, token]] += (score - lse[head]).exp().square().sum().cpu()
    return mass


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize(
    ("group", "anchors", "segment_size", "softcap", "width"),
    [(4, 9, 8, None, 32), (1, 0, 1, 2.0, 80), (3, 70, 1, None, 96)],
)
def test_squares_of_weights_are_added_at_the_tokens_places(
    dtype: torch.dtype,
    name: str,
    scored: bool,
    group: int,
    anchors: int,
    segment_size: int,
    softcap: float | None,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "PROGRAMS", PROGRAMS)
    heads = len(RUNS)
    query = surrounded(normal(heads, group, width, dtype=dtype, seed=1).to(DEVICE))
    stored = normal(heads, anchors + 150 + 5, width, dtype=dtype, seed=2).to(DEVICE)
    stored[:, anchors + 150 :] = torch.nan
    keys = stored[:, : anchors + 150]
    places = torch.stack([torch.randperm(NUM_TOKENS)[: anchors + 150] for _ in range(heads)])
    lse = surrounded((normal(heads, group, seed=3) + 2.0).to(DEVICE))
    mass, whole = guarded(torch.ones(NUM_TOKENS, device=DEVICE))
    expected = 1.0 + plain_sum(query, lse, keys, places, anchors, softcap)
    tokens = attended(segment_size)
    if scored:
        tokens = with_scores(query, keys, anchors, softcap, segment_size)
    inputs = AttentionMassInputs(
        query=query,
        lse=lse,
        keys=keys,
        positions=places.int().to(DEVICE),
        attended=tokens,
        num_anchors=anchors,
        scale=SCALE,
        softcap=softcap,
    )
    inputs.validate()
    IMPLEMENTATIONS[name](mass, inputs)
    limit = TOLERANCE[dtype]
    assert_close(mass.cpu().double(), expected, rtol=10 * limit, atol=limit)
    assert_guards(whole)


@pytest.mark.parametrize("segment_size", [0, 6, 32])
def test_segments_of_other_sizes_are_refused(segment_size: int) -> None:
    inputs = AttentionMassInputs(
        query=normal(3, 4, 32).to(DEVICE),
        lse=torch.zeros(3, 4, device=DEVICE),
        keys=normal(3, 153, 32).to(DEVICE),
        positions=torch.zeros(3, 153, dtype=torch.int32, device=DEVICE),
        attended=replace(attended(8), segment_size=segment_size),
        num_anchors=3,
        scale=SCALE,
    )
    with pytest.raises(ShapeError, match=f"Segments of {segment_size}"):
        accumulate_attention_mass(torch.zeros(NUM_TOKENS, device=DEVICE), inputs)
