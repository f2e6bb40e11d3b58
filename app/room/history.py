"""Earlier conversations about a document, as the reading room shows them again."""

import json
from typing import Any
from uuid import UUID

from app.http.schemas import Body
from storage.turns import ShownTurn, Turns

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


class History(Body):
    """Conversations about a document, the one with the latest answer first."""

    conversations: list[Conversation]


def read_history(turns: Turns, tenant_id: UUID, document_id: UUID) -> History:
    """Return the conversations that the latest turns about a document belong to."""
    rows = {turn.id: turn for turn in turns.about(tenant_id, document_id, MAX_TURNS)}
    followed = {turn.previous_id for turn in rows.values()}
    lasts = [turn for turn in rows.values() if turn.id not in followed]  # newest first
    return History(
        conversations=[
            Conversation(turns=[_shown(one) for one in _chain(rows, turn)]) for turn in lasts
        ]
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
