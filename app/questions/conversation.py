"""Earlier turns of a conversation: stored on the server, or sent along."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from common.errors import AnswerNotFound, InvalidInput
from engine.model.prompt import Turn
from storage.turns import UNKNOWN, TurnRecord, Turns


@dataclass(frozen=True)
class Keeping:
    """That an answer is kept as a turn, from which the conversation can go on.

    Attributes:
        turn_id: the id that the turn gets.
        previous_id: the stored turn before it; None if it is the first one.
    """

    turn_id: UUID
    previous_id: UUID | None = None


@dataclass(frozen=True)
class EarlierTurns:
    """What was said before.

    Attributes:
        turns: oldest first.
        document_id: the document that stored turns are about; None if they do not say.
    """

    turns: tuple[Turn, ...] = ()
    document_id: UUID | None = None


def earlier_turns(
    turns: Turns, tenant_id: UUID, previous_id: UUID | None, sent: Sequence[Turn], param: str
) -> EarlierTurns:
    """Return the turns before a question: stored ones first, then those that were sent along.

    Args:
        param: name of the request's parameter that holds `previous_id`, for errors.
    Raises: AnswerNotFound if there is no such stored turn.
    """
    if previous_id is None:
        return EarlierTurns(tuple(sent))
    try:
        stored: Sequence[TurnRecord] = turns.chain(tenant_id, previous_id)
    except AnswerNotFound as error:
        error.param = param
        raise
    said = tuple(Turn(turn.question, turn.answer) for turn in stored)
    return EarlierTurns((*said, *sent), stored[-1].document_id)


def parse_answer_id(text: str, param: str) -> UUID:
    """Parse the id of an answer that was kept. Raises: AnswerNotFound."""
    try:
        return UUID(text)
    except ValueError:
        raise AnswerNotFound(UNKNOWN, param=param) from None


def check_same_document(earlier: EarlierTurns, document_id: UUID, param: str) -> None:
    """Refuse to go on about another document. Raises: InvalidInput."""
    if earlier.document_id is not None and earlier.document_id != document_id:
        raise InvalidInput(
            f"{param}: the conversation is about another document; begin a new one.", param=param
        )
