"""Who takes part in the next forward pass; pure Python, and the same for the same past.

Questions wait in a line for each key. A question that is admitted takes a slot: its document is
loaded, its question prefilled, its answer decoded. Keys are equal, however much each of them asks.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count
from typing import Generic, TypeVar

from engine.serving.pace import Pace

Item = TypeVar("Item")
OWN_SLOTS = 2  # running questions that a key may have at the cost of one that has more


class Phase(Enum):
    """Where a question is."""

    WAITING = auto()
    LOADING = auto()
    PREFILL = auto()
    DECODE = auto()
    ENDED = auto()


class StepKind(Enum):
    """What all questions of a step do."""

    PREFILL = auto()
    DECODE = auto()


class Scheduled(Generic[Item]):
    """A question as the scheduler sees it.

    Attributes:
        key: whose question it is.
        item: what the caller knows it by.
        phase: where it is; a paused one is waiting.
        next_tokens: tokens of the next part of its prefill.
        document: what it is about, once that is loaded; answers about one share work.
        paused_in: the phase that a paused one goes on in.
        admitted: when it first got a slot, as a number that grows.
    """

    def __init__(self, key: Hashable, item: Item) -> None:
        self.key = key
        self.item = item
        self.phase = Phase.WAITING
        self.next_tokens = 0
        self.document: Hashable = None
        self.paused_in: Phase | None = None
        self.admitted = 0


@dataclass(frozen=True)
class Step(Generic[Item]):
    """One forward pass.

    Attributes:
        questions: that take part, at least one, in the order of their turns.
        num_tokens: of all of them together.
    """

    kind: StepKind
    questions: tuple[Scheduled[Item], ...]
    num_tokens: int


class Scheduler(Generic[Item]):
    """Decides at every step who is admitted, who is prefilled and who decodes.

    Args:
        max_running: slots, for questions that are loading, prefilled or decoding.
        pace: how much a step may take.
    """

    def __init__(self, max_running: int, pace: Pace) -> None:
        self._max_running = max_running
        self._pace = pace
        self._waiting: dict[Hashable, deque[Scheduled[Item]]] = {}
        self._running: dict[Scheduled[Item], None] = {}  # in the order of their last steps
        self._num_running: Counter[Hashable] = Counter()
        self._turns = count(1)
        self._last_turn: dict[Hashable, int] = {}  # when a key was last served, while it has any
        self._decoded_last = True

    @property
    def num_running(self) -> int:
        """Questions that have a slot."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Questions that wait for a slot, paused ones included."""
        return sum(map(len, self._waiting.values()))

    @property
    def has_step(self) -> bool:
        """Whether a forward pass can be taken now."""
        return any(one.phase in (Phase.PREFILL, Phase.DECODE) for one in self._running)

    def questions(self) -> Iterator[Scheduled[Item]]:
        """All questions that have not ended."""
        yield from tuple(self._running)
        for line in tuple(self._waiting.values()):
            yield from tuple(line)

    def add(self, key: Hashable, item: Item) -> Scheduled[Item]:
        """Let a question wait for a slot, behind those of its key."""
        question = Scheduled(key, item)
        self._waiting.setdefault(key, deque()).append(question)
        return question

    def admit(self) -> list[Scheduled[Item]]:
        """Give slots to waiting questions.

        The key with the fewest running questions is next, of several the one that was served the
        longest ago. Where all slots are taken, a key that has fewer than `OWN_SLOTS` gets one of a
        key that has more: its latest question is paused and is the first of its line from then on.

        Returns: questions whose documents are to be loaded; paused ones go on by themselves.
        """
        begun = []
        while (key := self._next_key()) is not None and self._make_room(key):
            question = self._waiting[key].popleft()
            self._drop_empty_line(key)
            if question.paused_in is None:
                question.phase = Phase.LOADING
                begun.append(question)
            else:
                question.phase, question.paused_in = question.paused_in, None
            self._running[question] = None
            self._num_running[key] += 1
            self._last_turn[key] = next(self._turns)
            question.admitted = question.admitted or self._last_turn[key]
        return begun

    def loaded(
        self, question: Scheduled[Item], next_tokens: int, document: Hashable = None
    ) -> None:
        """A question's document is there.

        Args:
            next_tokens: of the first part of its prefill.
            document: the same for all questions about it.
        """
        if question.phase is Phase.LOADING:
            question.phase, question.next_tokens = Phase.PREFILL, next_tokens
            question.document = document

    def next_step(self) -> Step[Item] | None:
        """Choose the next forward pass; None if nobody can take part in one.

        Prefills and decoding take turns, so that who decodes waits for one step of prefills at
        most, and the other way round.
        """
        prefills = [one for one in self._running if one.phase is Phase.PREFILL]
        decoding = [one for one in self._running if one.phase is Phase.DECODE]
        if prefills and (self._decoded_last or not decoding):
            return self._prefill_step(prefills)
        if decoding:
            return self._decode_step(decoding)
        return None

    def stepped(self, question: Scheduled[Item], next_tokens: int) -> None:
        """A question took part in a step and has not ended.

        Args:
            next_tokens: of the next part of its prefill; 0 if it decodes.
        """
        if question in self._running:
            question.next_tokens = next_tokens
            question.phase = Phase.PREFILL if next_tokens else Phase.DECODE
            self._running[question] = self._running.pop(question)  # behind all others

    def remove(self, question: Scheduled[Item]) -> None:
        """A question ends, wherever it is."""
        if question in self._running:
            del self._running[question]
            self._leave(question.key)
        elif question.phase is Phase.WAITING:
            self._waiting[question.key].remove(question)
            self._drop_empty_line(question.key)
        question.phase = Phase.ENDED

    # -- slots -----------------------------------------------------------------------------------

    def _next_key(self) -> Hashable | None:
        def turn(key: Hashable) -> tuple[int, int]:
            return self._num_running[key], self._last_turn.get(key, 0)

        return min(self._waiting, key=turn, default=None)

    def _make_room(self, key: Hashable) -> bool:
        """Whether there is a slot for the key, perhaps one that was another's."""
        if len(self._running) < self._max_running:
            return True
        if self._num_running[key] >= OWN_SLOTS:
            return False
        victims = [
            one
            for one in self._running
            if self._num_running[one.key] > OWN_SLOTS and one.phase in (Phase.PREFILL, Phase.DECODE)
        ]
        if not victims:
            return False
        self._pause(max(victims, key=lambda one: (self._num_running[one.key], one.admitted)))
        return True

    def _pause(self, question: Scheduled[Item]) -> None:
        del self._running[question]
        self._leave(question.key)
        question.phase, question.paused_in = Phase.WAITING, question.phase
        self._waiting.setdefault(question.key, deque()).appendleft(question)

    def _leave(self, key: Hashable) -> None:
        self._num_running[key] -= 1
        if not self._num_running[key]:
            del self._num_running[key]
            if key not in self._waiting:
                self._last_turn.pop(key, None)

    def _drop_empty_line(self, key: Hashable) -> None:
        if not self._waiting[key]:
            del self._waiting[key]

    # -- steps -----------------------------------------------------------------------------------

    def _prefill_step(self, prefills: list[Scheduled[Item]]) -> Step[Item]:
        """As many parts as the pace allows, one at least; keys take turns."""
        lines: dict[Hashable, deque[Scheduled[Item]]] = {}
        for question in prefills:
            lines.setdefault(question.key, deque()).append(question)
        chosen: list[Scheduled[Item]] = []
        num_tokens = 0
        while lines:
            key = min(lines, key=lambda one: self._last_turn.get(one, 0))
            question = lines[key].popleft()
            if not lines[key]:
                del lines[key]
            if chosen and num_tokens + question.next_tokens > self._pace.prefill_tokens:
                break
            chosen.append(question)
            num_tokens += question.next_tokens
            self._last_turn[key] = next(self._turns)
        self._decoded_last = False
        return Step(StepKind.PREFILL, tuple(chosen), num_tokens)

    def _decode_step(self, decoding: list[Scheduled[Item]]) -> Step[Item]:
        """As many rows as the pace allows, those about one document together, as they share work.

        The document with the row whose last step was the longest ago comes first.
        """
        lines: dict[Hashable, list[Scheduled[Item]]] = {}
        for question in decoding:
            lines.setdefault(question.document, []).append(question)
        chosen: list[Scheduled[Item]] = []
        for line in lines.values():
            if chosen and len(chosen) + len(line) > self._pace.decode_rows:
                break
            chosen += line[: self._pace.decode_rows]
        self._decoded_last = True
        return Step(StepKind.DECODE, tuple(chosen), len(chosen))
