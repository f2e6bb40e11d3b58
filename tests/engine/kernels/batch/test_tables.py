"""The tables of a step: the same whatever was written before."""

import random

import torch

from engine.kernels.batch.tables import StepRow, StepTables
from tests.engine.kernels.batch_case import SMALL, Ask, BatchCase, Document

DOCUMENTS = (
    Document(),
    Document(tokens=70, clusters=11, anchors=0),
    Document(tokens=30, clusters=3),
)
CASE = BatchCase(DOCUMENTS, tuple(Ask(index % 3, num_keys=200) for index in range(8)))


def draw_rows(draw: random.Random, before: list[StepRow]) -> list[StepRow]:
    """The rows of a next step: mostly those of the last one, with their next tokens."""
    if before and draw.random() < 0.5:
        kept = before
    else:
        kept = [
            StepRow(
                draw.randrange(len(DOCUMENTS)), 0, draw.randrange(1, 190), range(4), 0.0,
                draw.random() < 0.3, torch.zeros(4),
            )
            for _ in range(draw.randint(1, 8))
        ]  # fmt: skip
    return [
        StepRow(
            row.document, draw.randrange(99), row.num_keys + 1, draw.sample(range(16), 4),
            draw.uniform(-9.0, 0.0), row.reads_all, torch.zeros(4),
        )
        for row in kept
    ]  # fmt: skip


def test_what_was_written_before_leaves_nothing() -> None:
    documents = CASE.inputs(torch.float32).documents
    reused = StepTables(CASE.sizes, SMALL, documents.records.device)
    draw, rows = random.Random(0), list[StepRow]()
    num_same = 0
    for _ in range(60):
        before, rows = rows, draw_rows(draw, rows)
        num_same += [row.document for row in before] == [row.document for row in rows]
        fresh = StepTables(CASE.sizes, SMALL, documents.records.device)
        assert reused.write(rows, documents) == fresh.write(rows, documents)
        assert reused.plan == fresh.plan
        for name in ("header", "groups", "rows"):
            assert torch.equal(getattr(reused, name), getattr(fresh, name)), name
        for place, row in enumerate(reused.plan):
            used = -(-row.num_keys // 64)
            assert reused.pages[place, :used].tolist() == list(row.pages[:used])
    assert 10 < num_same < 50


def test_another_document_in_the_same_slot_is_noticed() -> None:
    documents = CASE.inputs(torch.float32).documents
    other = BatchCase((Document(tokens=70, clusters=9, anchors=4),) * 3, CASE.asks)
    rows = [StepRow(0, 5, 7, range(4), -3.0, False, torch.zeros(4))]
    reused, fresh = (StepTables(CASE.sizes, SMALL, documents.records.device) for _ in range(2))
    reused.write(rows, documents)
    changed = other.inputs(torch.float32).documents
    reused.write(rows, changed)
    fresh.write(rows, changed)
    assert torch.equal(reused.device, fresh.device)
