"""Who takes part in the next forward pass; pure Python, and the same for the same past.

Questions wait in a line for each key. A question that is admitted takes a slot: its document is
loaded, its question prefilled, its answer decoded. Tenants are equal, however many keys they have
and however much they ask, and so are the keys of a tenant.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count, zip_longest
from typing import Generic, TypeVar

from common.owner import Owner
from engine.serving.pace import Pace

Item = TypeVar("Item")
OWN_SLOTS = 2  # running questions that a tenant or key may have at the cost of one that has more
PREFILL_STEPS = 2  # between two decoding steps at most


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
        owner: whose question it is.
        item: what the caller knows it by.
        phase: where it is; a paused one is waiting.
        next_tokens: tokens of the next part of its prefill.
        document: what it is about, once that is loaded; answers about one share work.
        paused_in: the phase that a paused one goes on in.
        admitted: when it first got a slot, as a number that grows.
    """

    def __init__(self, owner: Owner, item: Item) -> None:
        self.owner = owner
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


class _Turns:
    """How many running questions each of several owners has, and when each had its last turn.

    An owner is a tenant or a key of one. Those that have no question are forgotten.
    """

    def __init__(self) -> None:
        self.num_running: Counter[Hashable] = Counter()
        self._count = count(1)
        self._admitted: dict[Hashable, int] = {}
        self._prefilled: dict[Hashable, int] = {}
        self._decoded: dict[Hashable, int] = {}

    def of_admission(self, owner: Hashable) -> tuple[int, int]:
        """Least for the owner that gets the next slot: who has fewest, and waits for longest."""
        return self.num_running[owner], self._admitted.get(owner, 0)

    def of_prefill(self, owner: Hashable) -> int:
        """Least for the owner that is prefilled next; a slot alone is no turn."""
        return self._prefilled.get(owner, 0)

    def of_decoding(self, owner: Hashable) -> int:
        """Least for the owner whose rows had their last decoding step the longest ago."""
        return self._decoded.get(owner, 0)

    def admit(self, owner: Hashable) -> int:
        """Note that an owner gets a slot; return a number that grows."""
        self.num_running[owner] += 1
        self._admitted[owner] = next(self._count)
        return self._admitted[owner]

    def prefill(self, owner: Hashable) -> None:
        """Note that a part of a prefill is an owner's."""
        self._prefilled[owner] = next(self._count)

    def decode(self, owner: Hashable) -> None:
        """Note that a row of a decoding step is an owner's."""
        self._decoded[owner] = next(self._count)

    def leave(self, owner: Hashable, *, is_waiting: bool) -> None:
        """Note that an owner has one running question less."""
        self.num_running[owner] -= 1
        if not self.num_running[owner]:
            del self.num_running[owner]
            self._decoded.pop(owner, None)
            if not is_waiting:
                self._admitted.pop(owner, None)
                self._prefilled.pop(owner, None)


class Scheduler(Generic[Item]):
    """Decides at every step who is admitted, who is prefilled and who decodes.

    Args:
        max_running: slots, for questions that are loading, prefilled or decoding.
        pace: how much a step may take.
    """

    def __init__(self, max_running: int, pace: Pace) -> None:
        self._max_running = max_running
        self._pace = pace
        # By tenant and by key; neither is there without a question.
        self._waiting: dict[Hashable, dict[Owner, deque[Scheduled[Item]]]] = {}
        self._running: dict[Scheduled[Item], None] = {}  # in the order of their last steps
        self._tenants, self._keys = _Turns(), _Turns()
        # Since the last decoding step, while somebody decoded: steps of prefills, and their tokens.
        self._waited_steps = self._waited_tokens = 0

    @property
    def num_running(self) -> int:
        """Questions that have a slot."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Questions that wait for a slot, paused ones included."""
        return sum(len(line) for lines in self._waiting.values() for line in lines.values())

    @property
    def has_step(self) -> bool:
        """Whether a forward pass can be taken now."""
        return any(one.phase in (Phase.PREFILL, Phase.DECODE) for one in self._running)

    def questions(self) -> Iterator[Scheduled[Item]]:
        """All questions that have not ended."""
        yield from tuple(self._running)
        yield from [
            one for lines in self._waiting.values() for line in lines.values() for one in line
        ]

    def add(self, owner: Owner, item: Item) -> Scheduled[Item]:
        """Let a question wait for a slot, behind those of its key."""
        question = Scheduled(owner, item)
        self._line(question).append(question)
        return question

    def admit(self) -> list[Scheduled[Item]]:
        """Give slots to waiting questions.

        The tenant with the fewest running questions is next, of several the one that was served the
        longest ago, and of its keys likewise. Where all slots are taken, one is made free at the
        cost of others (`_find_victim`): their latest question is paused, and is the first of its
        line from then on.

        Returns: questions whose documents are to be loaded; paused ones go on by themselves.
        """
        begun = []
        while (question := self._next_with_room()) is not None:
            self._leave_line(question)
            if question.paused_in is None:
                question.phase = Phase.LOADING
                begun.append(question)
            else:
                question.phase, question.paused_in = question.paused_in, None
            self._running[question] = None
            self._keys.admit(question.owner)
            turn = self._tenants.admit(question.owner.tenant)
            question.admitted = question.admitted or turn
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

        Prefills and decoding take turns. Who decodes waits for as many tokens of prefills as one
        step may have at most, in two steps if some come while others are prefilled: a decoding
        step in between would serve those alone who came first. Where a single part has more, it is
        a step, and the second one may be of a key that has no answer yet. A prefill waits for one
        decoding step at most.
        """
        prefills = [one for one in self._running if one.phase is Phase.PREFILL]
        decoding = [one for one in self._running if one.phase is Phase.DECODE]
        step = self._prefill_step(prefills, decoding) if prefills else None
        if step is None and decoding:
            step = self._decode_step(decoding)
        return step

    def can_repeat(self, step: Step[Item]) -> bool:
        """Whether the next step is a decoding step as it was: all go on, and nobody else is there.

        Args:
            step: the last one that was chosen.
        """
        return (
            step.kind is StepKind.DECODE
            and not self._waiting
            and len(step.questions) == len(self._running)
            and len(step.questions) <= self._pace.decode_rows
            and all(question.phase is Phase.DECODE for question in step.questions)
        )

    def repeat(self, step: Step[Item]) -> None:
        """Note that a step that `can_repeat` is taken once more."""
        for question in step.questions:
            self.stepped(question, 0)
        self._note_decoding(step.questions)

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
            self._stop(question)
        elif question.phase is Phase.WAITING:
            self._leave_line(question)
        question.phase = Phase.ENDED

    # -- slots -----------------------------------------------------------------------------------

    def _next_with_room(self) -> Scheduled[Item] | None:
        """The next question that may run now; where a slot must be made free, it is."""
        for tenant in sorted(self._waiting, key=self._tenants.of_admission):
            lines = self._waiting[tenant]
            question = lines[min(lines, key=self._keys.of_admission)][0]
            if len(self._running) < self._max_running:
                return question
            victim = self._find_victim(question)
            if victim is not None:
                self._pause(victim)
                return question
        return None

    def _find_victim(self, question: Scheduled[Item]) -> Scheduled[Item] | None:
        """Who is paused in favour of a question; None for nobody.

        A tenant with fewer than `OWN_SLOTS` running questions gets a slot of one that has more. A
        key with fewer gets one of a key that has more, if that is of the same tenant or of one that
        has more than its own.
        """
        tenants, keys = self._tenants.num_running, self._keys.num_running
        mine, num_mine = question.owner.tenant, tenants[question.owner.tenant]
        if keys[question.owner] >= OWN_SLOTS:
            return None

        def may_be_paused(one: Scheduled[Item]) -> bool:
            if one.phase not in (Phase.PREFILL, Phase.DECODE):
                return False
            theirs, num_theirs = one.owner.tenant, tenants[one.owner.tenant]
            if num_mine < OWN_SLOTS < num_theirs:
                return True
            return keys[one.owner] > OWN_SLOTS and (theirs == mine or num_theirs > num_mine)

        def has_most(one: Scheduled[Item]) -> tuple[int, int, int]:
            return tenants[one.owner.tenant], keys[one.owner], one.admitted

        return max(filter(may_be_paused, self._running), key=has_most, default=None)

    def _pause(self, question: Scheduled[Item]) -> None:
        self._line(question).appendleft(question)
        self._stop(question)
        question.phase, question.paused_in = Phase.WAITING, question.phase

    def _stop(self, question: Scheduled[Item]) -> None:
        """Take a question's slot away."""
        del self._running[question]
        lines = self._waiting.get(question.owner.tenant, {})
        self._tenants.leave(question.owner.tenant, is_waiting=bool(lines))
        self._keys.leave(question.owner, is_waiting=question.owner in lines)

    def _line(self, question: Scheduled[Item]) -> deque[Scheduled[Item]]:
        lines = self._waiting.setdefault(question.owner.tenant, {})
        return lines.setdefault(question.owner, deque())

    def _leave_line(self, question: Scheduled[Item]) -> None:
        lines = self._waiting[question.owner.tenant]
        lines[question.owner].remove(question)
        if not lines[question.owner]:
            del lines[question.owner]
        if not lines:
            del self._waiting[question.owner.tenant]

    # -- steps -----------------------------------------------------------------------------------

    def _prefill_step(
        self, prefills: list[Scheduled[Item]], decoding: list[Scheduled[Item]]
    ) -> Step[Item] | None:
        """As many parts as the pace allows, one at least; tenants and their keys take turns.

        Args:
            decoding: who decodes, and has waited for other steps perhaps.
        Returns: None if it is their turn.
        """
        if not decoding:
            self._waited_steps = self._waited_tokens = 0
        if self._waited_steps >= PREFILL_STEPS:
            return None
        lines: dict[Owner, deque[Scheduled[Item]]] = {}
        for question in prefills:
            lines.setdefault(question.owner, deque()).append(question)
        chosen: list[Scheduled[Item]] = []
        num_tokens = 0
        most = self._pace.prefill_tokens
        room = most - self._waited_tokens
        answered = {question.owner for question in decoding}

        def turn(owner: Owner) -> tuple[int, int]:
            return self._tenants.of_prefill(owner.tenant), self._keys.of_prefill(owner)

        while lines:
            owner = min(lines, key=turn)
            question = lines[owner].popleft()
            if not lines[owner]:
                del lines[owner]
            if num_tokens + question.next_tokens > room:
                is_first = owner not in answered and question.next_tokens > most
                if chosen or (self._waited_steps and not is_first):
                    break
            chosen.append(question)
            num_tokens += question.next_tokens
            self._tenants.prefill(owner.tenant)
            self._keys.prefill(owner)
        if not chosen:
            return None
        if decoding:
            self._waited_steps += 1
            self._waited_tokens += num_tokens
        return Step(StepKind.PREFILL, tuple(chosen), num_tokens)

    def _decode_step(self, decoding: list[Scheduled[Item]]) -> Step[Item]:
        """As many rows as the pace allows, those about one document together, as they share work.

        The document of the row whose turn it is comes first (`_by_turn`).
        """
        lines: dict[Hashable, list[Scheduled[Item]]] = {}
        for question in self._by_turn(decoding):
            lines.setdefault(question.document, []).append(question)
        chosen: list[Scheduled[Item]] = []
        for line in lines.values():
            if chosen and len(chosen) + len(line) > self._pace.decode_rows:
                break
            chosen += line[: self._pace.shared_rows]
        self._note_decoding(chosen)
        return Step(StepKind.DECODE, tuple(chosen), len(chosen))

    def _note_decoding(self, chosen: Iterable[Scheduled[Item]]) -> None:
        """Note whose rows a decoding step has."""
        for owner in dict.fromkeys(question.owner for question in chosen):
            self._tenants.decode(owner.tenant)
            self._keys.decode(owner)
        self._waited_steps = self._waited_tokens = 0

    def _by_turn(self, decoding: list[Scheduled[Item]]) -> list[Scheduled[Item]]:
        """Sort rows so that the first one of every tenant precedes the second one of any.

        So do the keys of a tenant among each other. Of several first ones, that of the tenant comes
        first whose last step was the longest ago; of one key's rows likewise.
        """
        by_key: dict[Owner, list[Scheduled[Item]]] = {}
        for question in decoding:
            by_key.setdefault(question.owner, []).append(question)
        by_tenant: dict[Hashable, list[list[Scheduled[Item]]]] = {}
        for owner in sorted(by_key, key=self._keys.of_decoding):
            by_tenant.setdefault(owner.tenant, []).append(by_key[owner])
        tenants = sorted(by_tenant, key=self._tenants.of_decoding)
        return _interleave([_interleave(by_tenant[tenant]) for tenant in tenants])


def _interleave(lines: Iterable[list[Item]]) -> list[Item]:
    """Return the first of every line, then the second of every line that has one, and so on."""
    places = zip_longest(*([(one,) for one in line] for line in lines), fillvalue=())
    return [one for place in places for entry in place for one in entry]
