"""Plants of timetables in prose: what departs, opens, begins or rings, and what else is told of it.

Beside a time of day stand a length of time, a number, a sum, a date and a person: each is asked for
by a question word of its own, and the others are near and wrong.
"""

# ruff: noqa: E501  (one wording a line, however long)

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from training.data import values, words
from training.data.draws import draw_until
from training.data.entities import draw_entity
from training.data.facts import Chunk, Plant, Question, claim
from training.data.speech import Voice, join_words, say_question, say_sentence
from training.data.template import expand
from training.data.wordings import REFUSAL


@dataclass(frozen=True)
class Part:
    """One thing that can be told.

    Attributes:
        kind: the kind of its values (training.data.values).
        clauses: what is said of the subject, with a `|` behind the verb.
        questions: with {S} for the subject and {u} for the unit of a value that has one.
    """

    kind: str
    clauses: tuple[str, ...]
    questions: tuple[str, ...]


@dataclass(frozen=True)
class Sort:
    """What is spoken of: its names, and what can be told of it."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class _Entry:
    """One subject and what is told of it; `slots` are those of its wordings."""

    slots: dict[str, str]
    told: tuple[tuple[Part, str], ...]

    @property
    def name(self) -> str:
        return self.slots["S"]


_TABLE = """
N the {adjective} [train|coach|tram|bus|shuttle|sleeper|barge|mail van|cable car|steamer] to {place}
N the [first|second|last|early|late|noon|Sunday|night|relief] [train|coach|tram|bus|shuttle|plane|steamer] to {place}
N the {place} [express|shuttle|line|mail]
time
S [departs|sets out|pulls out|sets off|starts|goes|moves off|leaves]|at {V}
S [is off|is on its way]|at {V}
Q When does {S} [depart|set out|set off|pull out|go]?
Q [At what time|What time|At which hour|At what hour] does {S} [leave|depart|go|set out|start|set off]?
Q [When|At what time|What time] is the departure of {S}?
Q [When|At what time] [will|is] {S} [to depart|to set out|to go]?
Q When must one be there to catch {S}?
time
S [arrives|gets in|pulls in|comes in|is expected]|at {V}
Q When does {S} [arrive|get there|get in|pull in]?
Q [At what time|What time|At which hour] does {S} [arrive|get in|come in]?
Q [When|At what time] is [the arrival of {S}|{S} expected]?
duration
S [takes|needs|is under way for]|{V}
Q [How long|How much time] does {S} [take|need]?
Q [How long|For how long] is {S} under way?
Q How many {u} does {S} [take|need]?
duration
S [runs|comes|operates]|every {V}
Q How often does {S} [run|come|operate]?
Q [At what intervals|Every how many {u}] does {S} [run|come]?
count
S [carries|has room for|takes on]|{V} {g}
Q How many {g} does {S} [carry|take|have room for]?
Q For how many {g} is there room on {S}?
money
S costs|{V} [a head|each way|per person]
Q How much does {S} cost?
Q What [is the fare for|is the price of|does one pay for] {S}?
person
S is [driven|steered] by|{V}
Q Who [drives|steers|is at the wheel of] {S}?
Q By whom is {S} [driven|steered]?
date
S [runs|operates]|until {V}
Q Until [when|what date|which day] does {S} [run|operate]?
room
S [goes from|waits at|uses]|{V}
Q [From where|Where] does {S} [wait|go from|leave from]?

N the {adjective} [shop|library|museum|pool|canteen|ticket office|bakery|laundry|reading room|post office|chapel|workshop|pharmacy|market hall]
N the [shop|library|museum|pool|canteen|bakery|laundry|bank|post office|archive|gallery] [in|at] {place}
N {site}
time
S [opens|unlocks its doors|lets people in]|at {V}
S is open|from {V} on
Q When does {S} open?
Q [At what time|What time|At which hour] does {S} [open|open its doors|let people in]?
Q [When|At what time] is {S} opened?
Q What is the opening time of {S}?
Q From what time on is {S} open?
time
S [closes|shuts|locks up|turns people out]|at {V}
Q When does {S} [close|shut|lock up]?
Q [At what time|What time|At which hour] does {S} [close|shut]?
Q How late is {S} open?
Q Until what time is {S} open?
year
S was [opened|built|set up]|in {V}
Q When was {S} [opened|built|set up]?
Q In [which|what] year was {S} [opened|built|set up]?
date
S stays shut|until {V}
Q Until [when|what date|which day] does {S} stay shut?
Q On [what|which] date will {S} be open again?
weekday
S is closed|on {V}s
Q On which day is {S} closed?
Q Which day of the week is {S} [closed|shut]?
duration
S [was closed for|stood empty for]|{V}
Q [How long|For how long] [was {S} closed|did {S} stand empty]?
Q [For how many|How many] {u} was {S} closed?
count
S [has|keeps|holds]|{V} {g}
Q How many {g} does {S} [have|keep|hold]?
Q How many {g} are kept in {S}?
money
S [charges|takes|asks]|{V} [for admission|a visit]
Q How much does {S} [charge|take]?
Q What does [admission to|a visit to] {S} cost?
person
S is [run|kept|looked after] by|{V}
Q Who [runs|keeps|looks after] {S}?
Q By whom is {S} [run|kept|looked after]?

N the {adjective} [shift|lecture|concert|meeting|service|drill|lesson|performance|hearing|rehearsal|auction|dance|fair|class|race]
N the [morning|evening|night|Monday|Friday|spring|autumn] [shift|lecture|concert|meeting|service|drill|lesson|performance|market|auction|class]
N the [shift|lecture|concert|meeting|service|lesson|performance|auction|parade] [in|at] {place}
time
S [begins|starts|gets under way|commences]|at {V}
Q When does {S} [begin|start|commence]?
Q [At what time|What time|At which hour] does {S} [begin|start]?
Q [When|At what time] is the [start|beginning] of {S}?
Q For what time is {S} [set|fixed]?
time
S [ends|is over|finishes|breaks up]|at {V}
Q When [does {S} end|is {S} over|does {S} finish]?
Q [At what time|What time|At which hour] does {S} [end|finish|break up]?
Q [When|At what time] is the end of {S}?
duration
S [lasts|goes on for|takes]|{V}
Q [How long|For how long] does {S} [last|go on]?
Q How many {u} does {S} [last|take]?
Q What length of time does {S} take?
duration
S is [repeated|held]|every {V}
Q How often is {S} [repeated|held]?
Q [At what intervals|Every how many {u}] is {S} [repeated|held]?
count
S [draws|brings together|is meant for]|{V} {w}
Q How many {w} does {S} [draw|bring together]?
Q For how many {w} is {S} meant?
person
S is [led|chaired|conducted] by|{V}
Q Who [leads|chairs|conducts] {S}?
Q By whom is {S} [led|chaired]?
date
S [is held|takes place]|for the first time on {V}
Q When is {S} held for the first time?
Q On [what|which] date does {S} take place for the first time?
money
S costs|{V} [a head|per person]
Q [How much|What] does {S} cost?
Q What is the price of {S}?
room
S [takes place|is held] in|{V}
Q Where [is {S} held|does {S} take place]?
Q In which place does {S} take place?

N the {adjective} [bell|gong|whistle|siren|horn|alarm|chime|drum]
N the [bell|gong|whistle|siren|horn|alarm] of {site}
time
S [rings|sounds|goes off|is heard]|at {V}
Q When does {S} [ring|sound|go off]?
Q [At what time|What time|At which hour] does {S} [ring|sound|go off]?
Q [When|At what time] [is {S} heard|can one hear {S}]?
time
S [falls silent|is silenced]|at {V}
Q When does {S} fall silent?
Q [At what time|What time] does {S} fall silent?
duration
S [rings|sounds|goes on] for|{V}
Q [How long|For how long] does {S} [ring|sound]?
Q For how many {u} does {S} [ring|sound]?
duration
S is [tested|cleaned|checked]|every {V}
Q How often is {S} [tested|cleaned|checked]?
Q Every how many {u} is {S} [tested|checked]?
count
S strikes|{V} times
Q How many times does {S} strike?
person
S is [rung|tended|sounded] by|{V}
Q Who [rings|tends|sounds] {S}?
year
S was [made|bought|hung]|in {V}
Q When was {S} [made|bought|hung]?
Q In [which|what] year was {S} [made|bought|hung]?

N the {adjective} [lamp|heating|oven|fountain|pump|lift|machine|fan|furnace|projector|floodlight]
N the [lamp|heating|fountain|pump|furnace|lift|floodlight] [of|in] {site}
time
S [comes on|starts|is switched on|is lit]|at {V}
Q When does {S} [come on|start]?
Q [At what time|What time] [is {S} switched on|does {S} come on]?
Q When is {S} [lit|switched on]?
time
S [goes out|stops|is switched off|is put out]|at {V}
Q When does {S} [go out|stop]?
Q [At what time|What time] [is {S} switched off|does {S} stop]?
duration
S [runs|burns|works] for|{V} at a time
Q [How long|For how long] does {S} [run|burn|work] at a time?
Q For how many {u} does {S} [run|work] at a time?
duration
S is [changed|overhauled|renewed|serviced]|every {V}
Q How often is {S} [changed|overhauled|renewed|serviced]?
Q Every how many {u} is {S} [changed|overhauled|serviced]?
count
S [serves|is meant for]|{V} {g}
Q How many {g} does {S} serve?
money
S costs|{V} a year
Q [How much|What] does {S} cost a year?
person
S is [looked after|tended] by|{V}
Q Who [looks after|tends] {S}?
date
S was [last changed|last overhauled|renewed]|on {V}
Q When was {S} last [changed|overhauled|renewed]?
Q On [what|which] date was {S} last [changed|overhauled]?
"""
_SLOT = re.compile(r"\{(adjective|place|site)\}")
_MOVABLE = ("at ", "on ", "in ", "until ", "every ")  # what begins so may stand before the subject
_LENGTHS = ("time", "duration")  # of two, a third can be reckoned


@lru_cache(maxsize=1)
def sorts() -> tuple[Sort, ...]:
    """All sorts of subjects, parsed once."""
    return tuple(_parse(block.splitlines()) for block in _TABLE.strip().split("\n\n"))


def plant_timetable(rng: Random, voice: Voice) -> Plant:
    """One to three subjects of a sort, each with two to four things told of it."""
    sort = rng.choice(sorts())
    entries = _draw_entries(sort, rng, voice)
    questions = [question for entry in entries for question in _ask_all(entry, sort, rng, voice)]
    if len(entries) > 1 and rng.random() < 0.5:
        chunks = [Chunk(" ".join(_tell_together(entries, rng, voice)))]
    else:
        chunks = [Chunk(_tell(entry, entry.told, rng, voice)) for entry in entries]
    return Plant(tuple(chunks), tuple(questions), claim(*(entry.name for entry in entries)))


def _draw_entries(sort: Sort, rng: Random, voice: Voice) -> list[_Entry]:
    """Subjects with different names and values; mostly they share what is told of them."""
    goods, people = rng.choice(words.GOODS), f"{rng.choice(words.ROLES)}s"
    first = _draw_parts(sort, rng)
    taken: set[str] = set()
    entries = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        parts = first if rng.random() < 0.6 else _draw_parts(sort, rng)
        name = draw_until(lambda one: one not in taken, lambda: _draw_name(sort, rng, voice))
        taken.add(name)
        told = tuple((part, _fresh_value(part, taken, rng, voice)) for part in parts)
        entries.append(_Entry({"S": name, "g": goods, "w": people}, told))
    return entries


def _draw_parts(sort: Sort, rng: Random) -> list[Part]:
    """Two to four, a time of day among them."""
    times = [part for part in sort.parts if part.kind == "time"]
    first = rng.choice(times)
    others = [part for part in sort.parts if part is not first]
    return [first, *rng.sample(others, rng.randint(1, 3))]


def _draw_name(sort: Sort, rng: Random, voice: Voice) -> str:
    pattern = rng.choice(sort.names)
    makers = {
        "adjective": lambda: rng.choice((*words.ADJECTIVES, *(voice.lexicon or words.COMMON))),
        "place": lambda: values.draw("place", rng, held_out=voice.held_out),
        "site": lambda: draw_entity("site", rng, held_out=voice.held_out).name,
    }
    slots = {slot: makers[slot]() for slot in _SLOT.findall(pattern)}
    return expand(pattern, rng, slots)


def _fresh_value(part: Part, taken: set[str], rng: Random, voice: Voice) -> str:
    value = draw_until(lambda one: one not in taken, lambda: _value(part, rng, voice))
    taken.add(value)
    return value


def _value(part: Part, rng: Random, voice: Voice) -> str:
    if part.kind == "time" and rng.random() < 0.5:
        return _exact_time(rng)
    return values.draw(part.kind, rng, held_out=voice.held_out)


def _exact_time(rng: Random) -> str:
    """A time of day to the minute."""
    hour, minute = rng.randrange(24), rng.randrange(60)
    if rng.random() < 0.6:
        return f"{hour:02d}:{minute:02d}"
    return f"{(hour - 1) % 12 + 1}:{minute:02d} {'p.m.' if hour >= 12 else 'a.m.'}"


def _tell(entry: _Entry, told: Sequence[tuple[Part, str]], rng: Random, voice: Voice) -> str:
    """What is told of a subject, in one sentence or two, in any order."""
    said = [_clause(entry, part, value, rng) for part, value in told]
    rng.shuffle(said)
    (verb, rest), *others = said
    start = f"{entry.name} {verb} {rest}"
    if rest.startswith(_MOVABLE) and rng.random() < 0.25:
        start = f"{rest}, {entry.name} {verb}"
    more = [" ".join(clause) for clause in others]
    luck = rng.random()
    if not more:
        sentences = [start]
    elif luck < 0.35:
        sentences = [join_words([start, *more])]
    elif luck < 0.55:
        sentences = [start, f"it {join_words(more)}"]
    elif luck < 0.7:
        sentences = [f"{start}; it {join_words(more)}"]
    elif luck < 0.85:
        tail = f" and {join_words(more[1:])}" if more[1:] else ""
        sentences = [f"{entry.name}, which {more[0]}, {verb} {rest}{tail}"]
    else:
        sentences = [f"{start}, {rng.choice(('while', 'and', 'but'))} it {join_words(more)}"]
    return " ".join(say_sentence(sentence, rng, voice) for sentence in sentences)


def _tell_together(entries: Sequence[_Entry], rng: Random, voice: Voice) -> list[str]:
    """Sentences about all subjects: first what is told of each, if anything is, by one verb."""
    part = entries[0].told[0][0]
    if any(entry.told[0][0] is not part for entry in entries):
        return [_tell(entry, entry.told, rng, voice) for entry in entries]
    pattern = rng.choice(part.clauses)
    said: list[str] = []
    for entry in entries:
        clause = expand(pattern, rng, entry.slots | {"V": entry.told[0][1]})
        verb, _, rest = clause.partition("|")
        said.append(f"{entry.name} {rest}" if said else f"{entry.name} {verb} {rest}")
    return [
        say_sentence(join_words(said), rng, voice),
        *(_tell(entry, entry.told[1:], rng, voice) for entry in entries),
    ]


def _clause(entry: _Entry, part: Part, value: str, rng: Random) -> tuple[str, str]:
    text = expand(rng.choice(part.clauses), rng, entry.slots | {"V": value})
    verb, _, rest = text.partition("|")
    return verb, rest


def _ask_all(entry: _Entry, sort: Sort, rng: Random, voice: Voice) -> list[Question]:
    """For the time of day and one or two others, and now and then for what is not told."""
    first, *others = entry.told
    asked = [first, *rng.sample(others, rng.randint(0, min(2, len(others))))]
    questions = [
        Question(_ask(entry, part, value, rng, voice), value, "timetable") for part, value in asked
    ]
    if rng.random() < voice.refusals:
        told = [part for part, _ in entry.told]
        left = [part for part in sort.parts if part not in told and not _is_implied(part, told)]
        if left:
            text = _ask(entry, rng.choice(left), "", rng, voice)
            questions.append(Question(text, REFUSAL, "unanswerable"))
    return questions


def _is_implied(part: Part, told: Sequence[Part]) -> bool:
    """Whether what is told may be taken for it, or it can be reckoned."""
    kinds = [one.kind for one in told]
    is_reckoned = part.kind in _LENGTHS and sum(kind in _LENGTHS for kind in kinds) > 1
    return is_reckoned or (part.kind == "time" and "date" in kinds)


def _ask(entry: _Entry, part: Part, value: str, rng: Random, voice: Voice) -> str:
    unit = values.counted_unit(value)
    fitting = [text for text in part.questions if unit or "{u}" not in text]
    text = expand(rng.choice(fitting), rng, entry.slots | {"u": unit})
    return say_question(text, rng, voice)


def _parse(lines: Sequence[str]) -> Sort:
    names = tuple(line[2:] for line in lines if line.startswith("N "))
    parts: list[Part] = []
    for line in lines[len(names) :]:
        if " " not in line:
            parts.append(Part(line, (), ()))
        else:
            kind, clauses, questions = vars(parts[-1]).values()
            if line.startswith("S "):
                clauses = (*clauses, line[2:])
            else:
                questions = (*questions, line[2:])
            parts[-1] = Part(kind, clauses, questions)
    return Sort(names, tuple(parts))
