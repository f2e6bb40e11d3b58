"""The scheduler by simulation: who gets a slot, who takes part in a step, what is fair."""

import itertools
import random
from collections import Counter
from unittest.mock import ANY

import pytest

from common.owner import Owner
from engine.serving.pace import DECODE_STEP_S, MIN_ROWS, PREFILL_STEP_S, SHARED_ROWS, Pace
from engine.serving.scheduler import Phase, Scheduled, Scheduler, Step, StepKind

Question = Scheduled[str]


class Simulation:
    """A scheduler, and questions that take so many parts and tokens."""

    def __init__(self, slots: int, rows: int | None = None, tokens: int = 64) -> None:
        self.pace = Pace(slots)
        self.pace.decode_rows, self.pace.prefill_tokens = rows or slots, tokens
        self.scheduler: Scheduler[str] = Scheduler(slots, self.pace)
        self.parts: dict[str, list[int]] = {}
        self.tokens: dict[str, int] = {}
        self.begun: list[str] = []
        self.ended: list[str] = []

    def ask(
        self,
        key: str,
        name: str,
        parts: tuple[int, ...] = (10,),
        tokens: int = 3,
        tenant: str = "tenant",
    ) -> Question:
        self.parts[name], self.tokens[name] = list(parts), tokens
        return self.scheduler.add(Owner(tenant, key), name)

    def step(self) -> Step[str] | None:
        for question in self.scheduler.admit():
            self.begun.append(question.item)
            parts = self.parts[question.item]
            self.scheduler.loaded(question, parts[0], document=question.item)
        step = self.scheduler.next_step()
        if step is None:
            return None
        for question in step.questions:
            name = question.item
            if step.kind is StepKind.PREFILL:
                self.parts[name].pop(0)
            self.tokens[name] -= not self.parts[name]
            if self.tokens[name]:
                self.scheduler.stepped(question, next(iter(self.parts[name]), 0))
            else:
                self.scheduler.remove(question)
                self.ended.append(name)
        return step

    def run(self) -> list[tuple[StepKind, tuple[str, ...]]]:
        steps = []
        while (step := self.step()) is not None:
            steps.append((step.kind, tuple(one.item for one in step.questions)))
        return steps


PREFILL, DECODE = StepKind.PREFILL, StepKind.DECODE


def test_questions_join_and_leave_at_any_token() -> None:
    simulation = Simulation(slots=4)
    simulation.ask("key", "a", tokens=5)
    assert simulation.step()
    simulation.ask("key", "b", tokens=2)
    assert simulation.run() == [
        (PREFILL, ("b",)),
        (DECODE, ("a", "b")),
        (DECODE, ("a",)),
        (DECODE, ("a",)),
        (DECODE, ("a",)),
    ]
    assert simulation.scheduler.num_running == simulation.scheduler.num_waiting == 0


def test_prefills_go_in_parts_between_which_others_decode() -> None:
    simulation = Simulation(slots=4, tokens=64)
    simulation.ask("key", "short", tokens=6)
    simulation.step()
    simulation.ask("key", "long", parts=(64, 64, 7), tokens=2)
    assert [kind for kind, _ in simulation.run()] == [
        PREFILL, DECODE, PREFILL, DECODE, PREFILL, DECODE, DECODE, DECODE
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((10, 10, 10), [PREFILL, PREFILL, DECODE, PREFILL]),
        ((30, 40, 10), [PREFILL, DECODE, PREFILL, DECODE]),
    ],
    ids=["two steps that fit one", "two that do not"],
)
def test_who_decodes_waits_for_what_one_step_of_prefills_holds(
    parts: tuple[int, ...], expected: list[StepKind]
) -> None:
    simulation = Simulation(slots=8, tokens=64)
    simulation.ask("key", "first", tokens=9)
    assert simulation.step()
    kinds = []
    waiting = list(parts)
    for _ in expected:
        if waiting:  # another question comes in each step
            simulation.ask("key", f"{len(waiting)}", parts=(waiting.pop(0),), tokens=9)
        step = simulation.step()
        assert step is not None
        kinds.append(step.kind)
    assert kinds == expected


@pytest.mark.parametrize(
    ("key", "tokens", "expected"),
    [
        ("modest", 5, [(PREFILL, ("m",)), (DECODE, ("g1", "g2", "m")), (PREFILL, ("g3",))]),
        ("greedy", 5, [(DECODE, ("g1", "g2")), (PREFILL, ("m",)), (DECODE, ("g1", "g2", "m"))]),
        ("modest", 15, [(DECODE, ("g1", "g2")), (PREFILL, ("g3", "m")), (DECODE, ANY)]),
    ],
    ids=["a key without an answer", "one with answers", "prefills that steps can hold"],
)
def test_a_keys_only_question_waits_for_no_second_decoding_step_where_prefills_are_slow(
    key: str, tokens: int, expected: list[tuple[StepKind, tuple[str, ...]]]
) -> None:
    simulation = Simulation(slots=8, tokens=tokens)
    simulation.ask("greedy", "g1", tokens=9)
    assert simulation.step()
    simulation.ask("greedy", "g2", tokens=9)
    assert simulation.step() == Step(PREFILL, (ANY,), 10)
    simulation.ask(key, "m", tokens=9)
    steps = []
    for number in range(3):
        step = simulation.step()
        assert step is not None
        steps.append((step.kind, tuple(sorted(one.item for one in step.questions))))
        if not number:
            simulation.ask("greedy", "g3", parts=(4,), tokens=9)
    assert steps == expected


def test_prefills_go_on_when_nobody_decodes_any_more() -> None:
    simulation = Simulation(slots=8, tokens=64)
    first = simulation.ask("key", "first", tokens=9)
    assert simulation.step()
    for name in ("a", "b", "c"):
        simulation.ask("key", name, tokens=1)
        if name == "c":
            simulation.scheduler.remove(first)  # its caller has gone
        assert simulation.step() == Step(PREFILL, (ANY,), 10)


def test_a_decoding_step_is_repeated_while_nobody_comes_or_goes() -> None:
    simulation = Simulation(slots=4)
    scheduler = simulation.scheduler
    first, second = simulation.ask("key", "a", tokens=9), simulation.ask("other", "b", tokens=9)
    prefill, step = simulation.step(), simulation.step()
    assert prefill is not None
    assert step is not None
    assert not scheduler.can_repeat(prefill)
    assert scheduler.can_repeat(step)
    scheduler.repeat(step)
    following = scheduler.next_step()
    assert following is not None
    assert set(following.questions) == {first, second}

    third = simulation.ask("key", "c")
    assert not scheduler.can_repeat(step), "somebody waits"
    assert scheduler.admit() == [third]
    assert not scheduler.can_repeat(step), "somebody's document is being loaded"
    scheduler.remove(first)
    assert not scheduler.can_repeat(step), "as many run as the step has rows, but others"
    scheduler.remove(third)
    assert not scheduler.can_repeat(step), "an answer has ended"


def test_a_step_prefills_as_much_as_the_pace_allows_and_one_part_at_least() -> None:
    simulation = Simulation(slots=8, tokens=25)
    for name in "abc":
        simulation.ask("key", name, tokens=1)
    simulation.ask("key", "big", parts=(100,), tokens=1)
    assert [names for _, names in simulation.run()] == [("a", "b"), ("c",), ("big",)]


def test_rows_take_turns_where_not_all_fit_in_a_step() -> None:
    simulation = Simulation(slots=3, rows=2, tokens=99)
    for name in "abc":
        simulation.ask("key", name, tokens=3)
    (_, *decoding) = simulation.run()
    assert [names for _, names in decoding] == [("a", "b"), ("c", "a"), ("b", "c")]


def test_answers_about_one_document_decode_together() -> None:
    scheduler: Scheduler[str] = Scheduler(9, pace := Pace(9))
    pace.decode_rows = 4
    for number in range(9):
        scheduler.add(Owner("tenant", "key"), f"{'abc'[number % 3]}{number}")
    for question in scheduler.admit():
        scheduler.loaded(question, 1, document=question.item[0])
        scheduler.stepped(question, 0)
    seen: list[str] = []
    for _ in range(3):
        step = scheduler.next_step()
        assert step is not None
        assert len({one.document for one in step.questions}) == 1
        seen += [one.item for one in step.questions]
        for question in step.questions:
            scheduler.stepped(question, 0)
    assert sorted(seen) == sorted({f"{'abc'[number % 3]}{number}" for number in range(9)})


def test_answers_about_one_document_stay_together_in_slow_steps() -> None:
    scheduler: Scheduler[int] = Scheduler(40, pace := Pace(40))
    for _ in range(9):
        pace.note_decode(16, 10.0)
    for number in range(40):
        scheduler.add(Owner("tenant", "key"), number)
    for question in scheduler.admit():
        scheduler.loaded(question, 1, document=question.item % 2)
        scheduler.stepped(question, 0)
    step = scheduler.next_step()
    assert step is not None
    assert [one.item for one in step.questions] == list(range(0, 2 * SHARED_ROWS, 2))


@pytest.mark.parametrize("document", ["theirs", "mine"])
@pytest.mark.parametrize(
    "other", [Owner("tenant", "other"), Owner("other", "key")], ids=["key", "tenant"]
)
def test_a_crowds_rows_leave_every_second_step_to_anothers(document: str, other: Owner) -> None:
    scheduler: Scheduler[str] = Scheduler(65, pace := Pace(65))
    for _ in range(9):
        pace.note_decode(16, 10.0)
    for number in range(64):
        scheduler.add(Owner("tenant", "key"), f"crowd {number}")
    scheduler.add(other, "mine")
    for question in scheduler.admit():
        about = "theirs" if question.item.startswith("crowd") else document
        scheduler.loaded(question, 1, document=about)
        scheduler.stepped(question, 0)
    seen = []
    for _ in range(8):
        step = scheduler.next_step()
        assert step is not None
        seen.append({one.item for one in step.questions})
        for question in step.questions:
            scheduler.stepped(question, 0)
    assert all("mine" in before | after for before, after in itertools.pairwise(seen))
    assert len(set.union(*seen)) > 4 * (SHARED_ROWS - 1)  # and the crowd's rows take turns


def test_keys_get_slots_in_turn() -> None:
    simulation = Simulation(slots=2)
    for number in range(4):
        simulation.ask("greedy", f"g{number}")
    simulation.ask("modest", "m")
    simulation.run()
    assert simulation.begun == ["g0", "m", "g1", "g2", "g3"]


def test_a_key_that_waits_gets_a_slot_of_one_that_has_more_than_two() -> None:
    simulation = Simulation(slots=4)
    for number in range(6):
        simulation.ask("greedy", f"g{number}", tokens=9)
    for _ in range(3):
        simulation.step()
    assert simulation.scheduler.num_running == 4
    simulation.ask("modest", "m0", tokens=2)
    before = dict(simulation.tokens)
    step = simulation.step()
    assert step is not None
    assert [one.item for one in step.questions] == ["m0"]  # admitted and prefilled at once
    paused = [one for one in simulation.scheduler.questions() if one.paused_in is Phase.DECODE]
    assert [one.item for one in paused] == ["g3"]
    assert simulation.tokens["g3"] == before["g3"]
    simulation.run()
    assert simulation.begun == ["g0", "g1", "g2", "g3", "m0", "g4", "g5"]  # g3 begins once
    assert simulation.ended.index("g3") < simulation.ended.index("g4")  # and kept its place


def test_nobody_is_paused_for_a_third_question() -> None:
    simulation = Simulation(slots=4)
    for number in range(4):
        simulation.ask("a", f"a{number}", tokens=99)
    simulation.step()
    for number in range(4):
        simulation.ask("b", f"b{number}", tokens=99)
    for _ in range(9):
        simulation.step()
    running = Counter(one.item[0] for one in simulation.scheduler.questions()
                      if one.phase in (Phase.PREFILL, Phase.DECODE))  # fmt: skip
    assert running == {"a": 2, "b": 2}


def test_tenants_get_slots_in_turn_whatever_keys_they_have() -> None:
    simulation = Simulation(slots=2)
    for number in range(4):
        simulation.ask(f"key {number}", f"m{number}", tenant="many")
    simulation.ask("key", "f0", tenant="few")
    simulation.ask("key", "f1", tenant="few")
    simulation.run()
    assert simulation.begun == ["m0", "f0", "m1", "f1", "m2", "m3"]


def test_a_tenant_with_fifty_keys_keeps_nobody_waiting() -> None:
    simulation = Simulation(slots=64, tokens=20)
    for number in range(100):  # two questions of each key
        simulation.ask(f"key {number % 50}", f"m{number}", tokens=9, tenant="many")
    simulation.step()
    assert simulation.scheduler.num_running == 64
    for number in range(3):
        simulation.ask("key", f"f{number}", tokens=4, tenant="few")
    prefills = [names for kind, names in simulation.run() if kind is PREFILL]
    assert "f0" in prefills[0]
    begun = simulation.begun
    assert begun.index("f1") < 66 <= begun.index("f2"), "a third one waits for a free slot"
    assert len(simulation.ended) == 103


def test_a_key_gets_a_slot_of_its_own_tenants_key_that_has_more_than_two() -> None:
    simulation = Simulation(slots=6)
    for number in range(4):
        simulation.ask("greedy", f"g{number}", tokens=9)
        simulation.ask("other", f"o{number}", tokens=9, tenant="other")
    for _ in range(3):
        simulation.step()
    simulation.ask("modest", "m", tokens=2)
    simulation.step()
    assert simulation.begun[-1] == "m"
    paused = [one.item for one in simulation.scheduler.questions() if one.paused_in]
    assert paused == ["g2"]


def test_a_question_that_is_loading_is_not_paused() -> None:
    scheduler: Scheduler[str] = Scheduler(3, Pace(3))
    for name in "abc":
        scheduler.add(Owner("tenant", "greedy"), name)
    assert len(scheduler.admit()) == 3
    scheduler.add(Owner("tenant", "modest"), "m")
    assert scheduler.admit() == []
    assert scheduler.num_waiting == 1


def test_a_crowd_of_one_key_does_not_keep_anothers_prefill_waiting() -> None:
    simulation = Simulation(slots=64, tokens=20)
    for number in range(40):
        simulation.ask("greedy", f"g{number}")
    simulation.step()
    simulation.ask("modest", "m")
    names = [names for kind, names in (simulation.run()) if kind is PREFILL]
    assert names[0][0] == "m", "who has just come is prefilled before who had a turn"


@pytest.mark.parametrize("phase", ["waiting", "loading", "running", "paused"])
def test_what_is_removed_takes_no_place(phase: str) -> None:
    simulation = Simulation(slots=3 if phase == "paused" else 1)
    questions = [simulation.ask("greedy", name, tokens=9) for name in "abc"]
    if phase == "loading":
        simulation.scheduler.admit()
    if phase in ("running", "paused"):
        simulation.step()
    if phase == "paused":
        simulation.ask("modest", "m", tokens=9)
        simulation.step()
    victim = {"waiting": 2, "paused": 2}.get(phase, 0)
    if phase == "paused":
        assert questions[victim].paused_in is not None
    simulation.scheduler.remove(questions[victim])
    assert questions[victim].phase is Phase.ENDED
    simulation.run()
    assert questions[victim].item not in simulation.ended
    assert simulation.scheduler.num_running == simulation.scheduler.num_waiting == 0


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_everybody_is_served(seed: int) -> None:
    draw = random.Random(seed)
    simulation = Simulation(slots=draw.randint(1, 6), rows=draw.randint(1, 4), tokens=50)
    asked: dict[str, Question] = {}
    removed: set[str] = set()
    for number in range(60):
        for _ in range(draw.randint(0, 2)):
            name = f"{number}-{len(asked)}"
            parts = tuple(draw.choices((5, 40), k=draw.randint(1, 3)))
            asked[name] = simulation.ask(draw.choice("abc"), name, parts, draw.randint(1, 9))
        simulation.step()
        assert simulation.scheduler.num_running <= 6
        if asked and draw.random() < 0.2:
            name = draw.choice(list(asked))
            if asked[name].phase is not Phase.ENDED:
                simulation.scheduler.remove(asked[name])
                removed.add(name)
    simulation.run()
    assert set(simulation.ended) == set(asked) - removed
    assert len(simulation.ended) == len(set(simulation.ended))
    assert list(simulation.scheduler.questions()) == []


# -- the pace ------------------------------------------------------------------------------------


def test_prefills_take_no_longer_than_those_who_decode_may_wait() -> None:
    pace = Pace(64)
    for _ in range(50):
        tokens = pace.prefill_tokens
        pace.note_prefill(tokens, tokens * 1e-3)
    assert pace.prefill_tokens * 1e-3 == pytest.approx(PREFILL_STEP_S, rel=0.05)
    for _ in range(50):
        pace.note_prefill(100, 1e-9)
    assert pace.prefill_tokens == 4096


def test_a_single_slow_prefill_makes_steps_hardly_smaller() -> None:
    pace = Pace(64)
    for _ in range(50):
        pace.note_prefill(100, 0.01)
    usual = pace.prefill_tokens
    pace.note_prefill(100, 0.5)
    assert pace.prefill_tokens >= usual / 1.3
    for _ in range(50):  # until others are as slow
        pace.note_prefill(100, 0.5)
    assert pace.prefill_tokens == pytest.approx(usual / 50, rel=0.1)


@pytest.mark.parametrize(("fixed_s", "row_s", "rows"), [(0.01, 1e-5, 64), (0.04, 4e-3, 10)])
def test_rows_of_a_step_follow_its_time(fixed_s: float, row_s: float, rows: int) -> None:
    pace = Pace(64)
    for _ in range(50):
        pace.note_decode(pace.decode_rows, fixed_s + pace.decode_rows * row_s)
    assert pace.decode_rows == pytest.approx(rows, abs=2)
    assert fixed_s + pace.decode_rows * row_s <= 1.1 * DECODE_STEP_S


def test_a_step_has_a_few_rows_however_slow_it_is() -> None:
    pace = Pace(64)
    for _ in range(9):
        pace.note_decode(pace.decode_rows, 10.0)
    assert pace.decode_rows == MIN_ROWS
    pace.note_decode(1, 0.001)  # too few rows to tell whether more would fit
    assert pace.decode_rows == MIN_ROWS
