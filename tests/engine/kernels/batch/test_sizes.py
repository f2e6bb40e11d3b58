"""Sizes of a captured step: what fits is known before anything is allocated."""

from types import SimpleNamespace

import pytest
import torch

from engine.kernels.batch.sizes import SEGMENT, BatchSizes, DocumentSizes
from engine.kernels.batch.tables import DocumentTable, StepRow, fits

LONG = DocumentSizes(131_072, num_anchors=132, num_keys=130_940, num_clusters=8_183)


def sizes(rows: int, group_rows: int, list_tokens: int) -> BatchSizes:
    """Of a step of an 8B model's shape."""
    return BatchSizes(rows, group_rows, 32, 8, 128, 64, 540_000, list_tokens, 1024 * rows)


@pytest.mark.parametrize("group_rows", [1, 4, 16])
def test_scores_of_every_list_have_their_places(group_rows: int) -> None:
    step = sizes(16, group_rows, LONG.num_keys)
    places = LONG.num_slots(SEGMENT, reads_whole=step.reads_whole)
    longest = LONG.num_segments(SEGMENT)  # of which each may be one token short of full
    if step.reads_whole:  # before a list gets as long as the head
        longest = -(-LONG.num_keys // SEGMENT)
    assert longest * SEGMENT <= places <= step.score_slots


def test_steps_of_64_rows_have_kernels_and_their_scores_little_memory() -> None:
    """However many clusters there are room for: scores follow from the tokens."""
    step = sizes(64, 16, 720_000)
    assert step.is_supported()
    assert step.score_slots * step.kv_heads * step.tile_rows * 2 < 1 << 30


@pytest.mark.parametrize(("documents", "taken"), [(5, True), (6, False)])
def test_rows_of_more_documents_than_there_are_places_for_do_not_fit(
    documents: int, taken: bool
) -> None:
    table = DocumentTable(8, 1, torch.device("cpu"), 8)
    table.sizes[:documents] = [LONG] * documents
    no_mass = SimpleNamespace()
    rows = [
        StepRow(document, 1, 10, [0], -5.0, reads_all, no_mass)  # type: ignore[arg-type]
        for document, reads_all in zip(range(documents), [True, False] * 4, strict=False)
    ]
    assert fits(rows, table, sizes(16, 16, 5 * LONG.num_keys)) is taken
