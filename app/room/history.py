"""Earlier conversations about a document, as the reading room shows them again."""

import json
from dataclasses import asdict
from typing import Any
from uuid import UUID

from app.http.schemas import Body
from storage.storage import Storage
from storage.turns import ShownTurn

MAX_TURNS = 200  # the latest ones of a document


class HistoryTurn(Body):
    """A question with its whole answer, or its text alone where no more is kept."""

    answer_id: str
    question: str
    answer: str
    body: dict[str, Any] | None
    created_at: int


class Conversation(Body):
    """Turns that follow each other, oldest first."""

    turns: list[HistoryTurn]


class Cost(Body):
    """What reading more of a document costs, by the times of earlier answers."""

    ms_per_gib: float
    num_answers: int


class History(Body):
    """Conversations about a document, the one with the latest answer first.

    Attributes:
        cost: from which the time of other budgets is estimated; None while answers do not tell.
    """

    conversations: list[Conversation]
    cost: Cost | None


def read_history(storage: Storage, tenant_id: UUID, document_id: UUID) -> History:
    """Return the conversations that the latest turns about a document belong to.

    Raises: DocumentNotFound.
    """
    storage.documents.get(tenant_id, document_id)
    cost = storage.answer_history.reading_cost(tenant_id)
    turns = storage.turns
    rows = {turn.id: turn for turn in turns.about(tenant_id, document_id, MAX_TURNS)}
    followed = {turn.previous_id for turn in rows.values()}
    lasts = [turn for turn in rows.values() if turn.id not in followed]  # newest first
    return History(
        conversations=[
            Conversation(turns=[_shown(one) for one in _chain(rows, turn)]) for turn in lasts
        ],
        cost=None if cost is None else Cost(**asdict(cost)),
    )


def _chain(rows: dict[UUID, ShownTurn], last: ShownTurn) -> list[ShownTurn]:
    chain: list[ShownTurn] = []
    turn: ShownTurn | None = last
    while turn is not None:
        chain.append(turn)
        turn = None if turn.previous_id is None else rows.get(turn.previous_id)
    return chain[::-1]


def _shown(turn: ShownTurn) -> HistoryTurn:
    return HistoryTurn(
        answer_id=str(turn.id),
        question=turn.question,
        answer=turn.answer,
        body=None if turn.body is None else json.loads(turn.body),
        created_at=int(turn.created_at.timestamp()),
    )
