"""Turns of conversations, and answers that are given again, on both databases."""

from uuid import uuid4

import pytest
from sqlalchemy import update

from common.errors import AnswerNotFound
from storage.db.tables import ConversationTurn, StoredAnswer


def expire(storage, table):
    with storage.db.session() as session:
        session.execute(update(table).values(expires_at=storage.db.now(session)))


def test_a_turn_brings_all_before_it_oldest_first(storage, tenant, upload):
    document = upload()
    first = storage.turns.add(tenant, document.id, "Who?", "Ada.")
    second = storage.turns.add(tenant, document.id, "When?", "1843.", first)
    chain = storage.turns.chain(tenant, second)
    assert [(turn.question, turn.answer) for turn in chain] == [
        ("Who?", "Ada."),
        ("When?", "1843."),
    ]
    assert chain[0].previous_id is None
    assert chain[1].document_id == document.id


def test_a_conversation_may_go_on_from_any_turn(storage, tenant):
    first = storage.turns.add(tenant, None, "Who?", "Ada.")
    branches = [storage.turns.add(tenant, None, question, "So.", first) for question in "ab"]
    assert [storage.turns.chain(tenant, one)[-1].question for one in branches] == ["a", "b"]


def test_another_tenants_turn_is_not_there(storage, tenant):
    turn = storage.turns.add(tenant, None, "Who?", "Ada.")
    other = storage.tenants.create("other")
    for foreign in (turn, uuid4()):
        with pytest.raises(AnswerNotFound):
            storage.turns.chain(other, foreign)
        with pytest.raises(AnswerNotFound):
            storage.turns.add(other, None, "When?", "1843.", foreign)


def test_turns_and_answers_go_with_their_document(storage, tenant, upload):
    document = upload()
    turn = storage.turns.add(tenant, document.id, "Who?", "Ada.")
    storage.stored_answers.add(tenant, document.id, "k", "{}")
    storage.documents.delete(tenant, document.id)
    with pytest.raises(AnswerNotFound):
        storage.turns.chain(tenant, turn)
    assert storage.stored_answers.find(tenant, "k") is None


def test_what_is_over_is_gone_and_deleted(storage, tenant, upload):
    document = upload()
    turn = storage.turns.add(tenant, document.id, "Who?", "Ada.")
    storage.stored_answers.add(tenant, document.id, "k", "{}")
    assert storage.turns.delete_expired() == storage.stored_answers.delete_expired() == 0
    for table in (ConversationTurn, StoredAnswer):
        expire(storage, table)
    with pytest.raises(AnswerNotFound):
        storage.turns.chain(tenant, turn)
    assert storage.stored_answers.find(tenant, "k") is None
    assert storage.turns.delete_expired() == storage.stored_answers.delete_expired() == 1


def test_a_later_turn_keeps_the_earlier_ones(storage, tenant):
    first = storage.turns.add(tenant, None, "Who?", "Ada.")
    with storage.db.session() as session:
        before = session.get(ConversationTurn, first).expires_at
    storage.turns.add(tenant, None, "When?", "1843.", first)
    with storage.db.session() as session:
        assert session.get(ConversationTurn, first).expires_at > before


def test_an_answer_is_found_by_its_tenant_alone_and_replaced(storage, tenant, upload):
    document = upload()
    storage.stored_answers.add(tenant, document.id, "k", "1")
    storage.stored_answers.add(tenant, document.id, "k", "2")
    assert storage.stored_answers.find(tenant, "k") == "2"
    assert storage.stored_answers.find(storage.tenants.create("other"), "k") is None
    storage.stored_answers.add(tenant, uuid4(), "of no document", "3")
    assert storage.stored_answers.find(tenant, "of no document") is None
