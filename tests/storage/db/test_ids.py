"""Ids of documents hold when they were made, so that pages go on after deletions."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from storage.db.ids import EPOCH, created_at_of, new_document_id

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("microseconds", [0, 1, 999, 1000, 123_456, 999_999])
def test_the_moment_comes_back_to_the_microsecond(microseconds: int) -> None:
    moment = NOON + timedelta(microseconds=microseconds)
    assert created_at_of(new_document_id(moment)) == moment


def test_every_microsecond_of_a_millisecond_comes_back() -> None:
    moments = [NOON + timedelta(microseconds=number) for number in range(1000)]
    assert [created_at_of(new_document_id(moment)) for moment in moments] == moments


def test_two_ids_of_one_moment_differ_and_are_of_version_7() -> None:
    first, second = new_document_id(NOON), new_document_id(NOON)
    assert first != second
    assert (first.version, first.variant) == (7, uuid4().variant)


def test_ids_that_hold_no_moment_have_none() -> None:
    assert created_at_of(uuid4()) is None
    assert created_at_of(UUID("ffffffff-ffff-7fff-bfff-ffffffffffff")) is None
    assert created_at_of(new_document_id(EPOCH)) == EPOCH
