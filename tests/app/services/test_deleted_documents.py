"""Questions about documents that another process deletes; which documents are looked at."""

from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.services.deleted_documents import DeletedDocuments
from common.errors import DatabaseUnavailable, LecternError


class Asked:
    """Questions, by the names of their documents."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.stopped: list[Hashable] = []

    def document_ids(self) -> set[str]:
        return self.names

    def cancel_document(self, document_id: Hashable, error: LecternError) -> None:
        self.stopped.append(document_id)


class Stored:
    """Documents, of which some are deleted."""

    def __init__(self) -> None:
        self.deleted: set[str] = set()
        self.looks: list[str] = []
        self.error: Exception | None = None

    def is_deleted(self, document: Any) -> bool:
        self.looks.append(document.id)
        if self.error is not None:
            raise self.error
        return document.id in self.deleted


@pytest.fixture
def stored() -> Stored:
    return Stored()


def watching(stored: Stored, asked: Asked) -> DeletedDocuments:
    deleted = DeletedDocuments(cast(Any, None), cast(Any, stored), *[cast(Any, None)] * 2, asked)
    for name in ("a", "b"):
        deleted.watch(cast(Any, SimpleNamespace(id=name)))
    return deleted


def test_a_document_is_looked_at_once_however_many_ask_about_it(stored: Stored) -> None:
    deleted = watching(stored, Asked("a"))
    deleted.watch(cast(Any, SimpleNamespace(id="a")))
    deleted.stop_questions()
    assert stored.looks == ["a"]  # nobody asks about the other one


def test_questions_about_deleted_documents_are_stopped(stored: Stored) -> None:
    stored.deleted = {"b"}
    deleted = watching(stored, asked := Asked("a", "b"))
    deleted.stop_questions()
    assert asked.stopped == ["b"]


@pytest.mark.parametrize("error", [DatabaseUnavailable("It is away."), OSError(5, "disk")])
def test_what_cannot_be_looked_at_is_looked_at_again(stored: Stored, error: Exception) -> None:
    stored.deleted, stored.error = {"a"}, error
    deleted = watching(stored, asked := Asked("a"))
    deleted.stop_questions()
    assert asked.stopped == []
    stored.error = None
    deleted.stop_questions()
    assert asked.stopped == ["a"]
