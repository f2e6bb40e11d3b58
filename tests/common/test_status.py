"""The states of documents and jobs."""

import json

import pytest

from common.status import DocumentStatus, JobStatus, Phase


def test_a_document_is_either_in_work_or_final() -> None:
    final = {status for status in DocumentStatus if status.is_final}
    assert final == {DocumentStatus.READY, DocumentStatus.FAILED}
    assert {status for status in DocumentStatus if status.is_in_work} == set(DocumentStatus) - final


def test_a_job_is_active_until_it_has_ended() -> None:
    active = {status for status in JobStatus if status.is_active}
    assert active == {JobStatus.QUEUED, JobStatus.RUNNING}


@pytest.mark.parametrize("member", [*DocumentStatus, *JobStatus, *Phase])
def test_a_member_is_sent_and_shown_as_its_value(member: str) -> None:
    assert json.loads(json.dumps(member)) == member.lower() == f"{member}"
