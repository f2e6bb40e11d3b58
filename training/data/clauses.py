"""Needles of clauses: a verb with its object and its circumstances, each of which can be asked for.

The sentence and the question are built by grammar from the same clause, each in a way of its own:
active or passive, as a rule, an order or a report, with the circumstances before or after.
"""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from random import Random

from training.data import values
from training.data.circumstances import CIRCUMSTANCES, Circumstance, draw_stuff
from training.data.facts import REFUSAL, Chunk, Needle, Question, claim
from training.data.phrasing import StyleConfig, say_question, say_sentence
from training.data.split import draw_until
from training.data.templates import draw_word, expand, template_list, word_list
from training.data.text import capitalise
from training.data.verbs import Verb, verb_of

_PARTICLES = ("", "", "", "", "", "up", "down", "off", "out", "over", "away", "in")
_OF_HAPPENINGS = (
    "often", "long", "soon", "time", "where", "measure", "reading", "reading", "reading", "times",
)  # fmt: skip
_LOOSE = re.compile(r",?\s*([,;.])")  # a stop with a space or another stop before it


@dataclass(frozen=True)
class Clause:
    """Someone does something to something, under some circumstances.

    Attributes:
        thing: the object; empty where something happens by itself.
        sort: the noun for the object in a question for it: "which oil".
    """

    subject: str
    verb: Verb
    particle: str
    thing: str
    is_plural: bool
    sort: str
    circumstances: tuple[Circumstance, ...]

    @property
    def topic(self) -> str:
        """What the clause is about."""
        return self.thing or self.subject


def make_clauses(rng: Random, style: StyleConfig) -> Needle:
    """One to three clauses that share a verb or nothing; every part may be asked for."""
    first = _draw_clause(rng, style)
    clauses = [first]
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        other = _draw_clause(rng, style)
        is_alike = bool(other.thing) == bool(first.thing)
        if is_alike and rng.random() < 0.6:  # a rival: the same with something else, otherwise
            other = replace(other, verb=first.verb, particle=first.particle)
            other = replace(other, circumstances=_like(first, rng, style))
        if other.topic not in {one.topic for one in clauses}:
            clauses.append(other)
    questions: list[Question] = []
    for clause in clauses:
        questions += _questions(clause, rng, style)
    if rng.random() < style.refusals:
        questions.append(_missing(first, clauses, rng, style))
    sentences = [say_sentence(_statement(clause, rng), rng, style) for clause in clauses]
    names = [word for one in clauses for word in (one.topic, one.subject)]
    if rng.random() < 0.35:
        return Needle((Chunk(" ".join(sentences)),), tuple(questions), claim(*names))
    return Needle(tuple(map(Chunk, sentences)), tuple(questions), claim(*names))


def _draw_clause(rng: Random, style: StyleConfig) -> Clause:
    if rng.random() < 0.25:
        return _draw_happening(rng, style)
    sort, thing, is_plural = rng.choices((_named, _described, _several, _strange), (2, 4, 3, 3))[0](
        rng, style
    )
    return Clause(
        subject=_agent(rng, style),
        verb=verb_of(draw_word("actions", rng)),
        particle=rng.choice(_PARTICLES),
        thing=thing,
        is_plural=is_plural,
        sort=sort,
        circumstances=_draw_circumstances(tuple(CIRCUMSTANCES), rng, style),
    )


def _draw_happening(rng: Random, style: StyleConfig) -> Clause:
    """Something does something by itself: the pump stops at 40 degrees."""
    _, subject, _ = rng.choice((_described, _strange))(rng, style)
    return Clause(
        subject=subject,
        verb=verb_of(draw_word("happenings", rng)),
        particle=rng.choice(_PARTICLES),
        thing="",
        is_plural=False,
        sort="",
        circumstances=_draw_circumstances(_OF_HAPPENINGS, rng, style),
    )


def _draw_circumstances(
    names: tuple[str, ...], rng: Random, style: StyleConfig
) -> tuple[Circumstance, ...]:
    drawn = rng.sample(names, rng.choice((1, 1, 1, 2, 2, 3)))
    return tuple(CIRCUMSTANCES[name](rng, style) for name in drawn)


def _like(clause: Clause, rng: Random, style: StyleConfig) -> tuple[Circumstance, ...]:
    """Circumstances of the same sorts, with other values."""
    found: list[Circumstance] = []
    for one in clause.circumstances:
        for make in CIRCUMSTANCES.values():
            other = make(rng, style)
            if other.asked[0].split(" ")[:2] == one.asked[0].split(" ")[:2]:
                if other.answer != one.answer:
                    found.append(other)
                break
    return tuple(found) or (CIRCUMSTANCES["often"](rng, style),)


def _named(rng: Random, style: StyleConfig) -> tuple[str, str, bool]:
    del style
    return *draw_stuff(rng), False


def _described(rng: Random, style: StyleConfig) -> tuple[str, str, bool]:
    del style
    noun = rng.choice((*word_list("things"), *word_list("parts"), *word_list("sites")))
    head = rng.choice((draw_word("adjectives", rng), draw_word("common", rng), ""))
    return "", " ".join(filter(None, ("the", head, noun))), False


def _several(rng: Random, style: StyleConfig) -> tuple[str, str, bool]:
    noun = draw_word("goods", rng)
    head = rng.choice(
        rng.choice(
            (word_list("adjectives"), word_list("defects"), style.lexicon or word_list("common"))
        )
    )
    return "", f"{rng.choice(('the ', '', ''))}{head} {noun}", True


def _strange(rng: Random, style: StyleConfig) -> tuple[str, str, bool]:
    """A thing by words that hardly ever stand together."""
    pool = style.lexicon or word_list("common")
    return "", f"the {rng.choice(pool)} {rng.choice(pool)}", False


def _agent(rng: Random, style: StyleConfig) -> str:
    luck = rng.random()
    if luck < 0.4:
        return values.draw("person", rng, held_out=style.held_out)
    nouns = word_list("roles") if luck < 0.75 else word_list("things") + word_list("bodies")
    return f"the {rng.choice(nouns)}"


def _statement(clause: Clause, rng: Random) -> str:
    """One of the ways to say the clause, its circumstances in any order."""
    told = rng.sample(clause.circumstances, len(clause.circumstances))
    front = f"{told.pop().text}, " if told and rng.random() < 0.3 else ""
    say = rng.choice(_SENTENCES) if clause.thing else _active
    text = say(clause, " ".join(one.text for one in told), rng)
    filler = rng.choice(template_list("clauses", "fillers"))
    tail = expand(filler, rng, {"X": f"the {draw_word('things', rng)}"})
    joined = " ".join(f"{front}{text}{tail}".split())
    return _LOOSE.sub(r"\1", joined).rstrip(",")


def _thing(clause: Clause, rng: Random) -> str:
    """The object, with its sort where the question will need it."""
    if not clause.sort:
        return clause.thing
    head = draw_word("adjectives", rng)
    return rng.choice((f"{clause.thing}, a {head} {clause.sort},", f"{clause.thing} {clause.sort}",
                       f"the {clause.sort} {clause.thing}"))  # fmt: skip


def _be(clause: Clause) -> str:
    return "are" if clause.is_plural else "is"


def _active(clause: Clause, told: str, rng: Random) -> str:
    verb = rng.choice((clause.verb.third, clause.verb.third, clause.verb.past,
                       f"has to {clause.verb.base}", f"will {clause.verb.base}",
                       f"must {clause.verb.base}", f"never {clause.verb.third}"))  # fmt: skip
    verb = clause.verb.third if verb.startswith("never") else verb
    thing = _thing(clause, rng)
    if clause.particle and rng.random() < 0.5:
        return f"{clause.subject} {verb} {clause.particle} {thing} {told}"
    return f"{clause.subject} {verb} {thing} {clause.particle} {told}"


def _passive(clause: Clause, told: str, rng: Random) -> str:
    be, done = _be(clause), f"{clause.verb.participle} {clause.particle}"
    be = rng.choice((be, be, "must be", "has to be", "should be", "may be", "was", "will be"))
    if clause.is_plural:
        be = be.replace("has", "have").replace("was", "were")
    by = f"by {clause.subject}"
    return f"{_thing(clause, rng)} {be} {done} {rng.choice((f'{by} {told}', f'{told} {by}'))}"


def _order(clause: Clause, told: str, rng: Random) -> str:
    words_before = rng.choice(("", "always ", "be sure to ", "please ", "do not forget to "))
    return (
        f"{words_before}{clause.verb.base} {_thing(clause, rng)} {clause.particle} {told}; "
        f"{clause.subject} {rng.choice(('does it as a rule', 'usually does it', 'does so, too'))}"
    )


def _divided(clause: Clause, told: str, rng: Random) -> str:
    """It is X who does it: one part is put first."""
    forms = template_list("clauses", "divided statements")
    form, thing = rng.choice([(one, _thing(clause, rng)) for one in forms])
    slots = {
        **_forms(clause),
        "thing": thing,
        "pronoun": "them" if clause.is_plural else "it",
        "clause": "they are" if clause.is_plural else "it is",
    }
    by = expand(form, rng, slots)
    return f"{by} {clause.particle} {told}" if " it" not in by[-4:] else f"{by} {told}"


def _contrasting(clause: Clause, told: str, rng: Random) -> str:
    """Who does not do it is said, too."""
    slots = {**_forms(clause), "other": f"the {draw_word('roles', rng)}"}
    form = expand(rng.choice(template_list("clauses", "contrasting statements")), rng, slots)
    return f"{form} {_thing(clause, rng)} {clause.particle} {told}"


def _forms(clause: Clause) -> dict[str, str]:
    """Slots of the templates of clauses."""
    return {
        "subject": clause.subject,
        "thing": clause.thing,
        "bare": clause.thing.removeprefix("the "),
        "particle": clause.particle,
        "be": _be(clause),
        **asdict(clause.verb),
    }


_SENTENCES: tuple[Callable[[Clause, str, Random], str], ...] = (
    _active, _active, _active, _passive, _passive, _passive, _order, _divided, _contrasting,
)  # fmt: skip


def _questions(clause: Clause, rng: Random, style: StyleConfig) -> list[Question]:
    """For one or two of the circumstances, and now and then for who or what."""
    count = min(len(clause.circumstances), rng.choice((1, 1, 2)))
    asked = rng.sample(clause.circumstances, count)
    questions = [Question(_ask(clause, one, rng, style), one.answer, "predicate") for one in asked]
    if rng.random() < 0.35:
        text = _ask_for_subject(clause, rng)
        questions.append(Question(say_question(text, rng, style), clause.subject, "predicate"))
    if clause.thing and (rng.random() < 0.35 or clause.sort):
        text = _ask_for_thing(clause, rng)
        questions.append(Question(say_question(text, rng, style), clause.thing, "predicate"))
    return questions


def _ask(clause: Clause, one: Circumstance, rng: Random, style: StyleConfig) -> str:
    unit = one.answer.split(" ", 1)[-1]
    fitting = [text for text in one.asked if "{u}" not in text or _is_unit(one.answer)]
    wh, _, rest = rng.choice(fitting).replace("{u}", unit).partition("|")
    others = [other.text for other in clause.circumstances if other is not one]
    told = rng.choice(others) if others and rng.random() < 0.25 else ""
    core = rng.choice(_QUESTIONS if clause.thing else (_by_do, _by_do, _told))(clause, rng)
    text = f"{core.replace('{wh}', wh)} {rest} {told}"
    return say_question(" ".join(text.split()).rstrip(",") + "?", rng, style)


def _is_unit(value: str) -> bool:
    """A number and the name of what is counted."""
    number, _, unit = value.partition(" ")
    return bool(unit) and (number[-1].isdigit() or number in word_list("small numbers"))


def _by_do(clause: Clause, rng: Random) -> str:
    others = ("one", "you") if clause.thing else ()
    who = rng.choice((clause.subject, clause.subject, *others))
    do = "does" if who != "you" else "do"
    do = rng.choice((do, do, "should", "must", "will"))
    return f"{{wh}} {do} {who} {clause.verb.base} {clause.thing} {clause.particle}"


def _by_be(clause: Clause, rng: Random) -> str:
    be, done = _be(clause), f"{clause.verb.participle} {clause.particle}"
    if rng.random() < 0.3:
        return f"{{wh}} {rng.choice(('must', 'should', 'may', 'will'))} {clause.thing} be {done}"
    by = f"by {clause.subject}" if rng.random() < 0.2 else ""
    return f"{{wh}} {be} {clause.thing} {done} {by}"


def _told(clause: Clause, rng: Random) -> str:
    head = rng.choice(template_list("clauses", "heads of questions"))
    return f"{head} {{wh}} {clause.subject} {clause.verb.third} {clause.particle}"


def _embedded(clause: Clause, rng: Random) -> str:
    head = rng.choice(template_list("clauses", "heads of questions"))
    be, done = _be(clause), f"{clause.verb.participle} {clause.particle}"
    return f"{head} {{wh}} {clause.thing} {be} {done}"


def _by_noun(clause: Clause, rng: Random) -> str:
    slots = {**_forms(clause), "wh": "{wh}"}
    return expand(rng.choice(template_list("clauses", "questions by a noun")), rng, slots)


_QUESTIONS: tuple[Callable[[Clause, Random], str], ...] = (
    _by_do, _by_do, _by_be, _by_be, _by_be, _embedded, _by_noun,
)  # fmt: skip


def _ask_for_subject(clause: Clause, rng: Random) -> str:
    if not clause.thing:
        told = rng.choice(clause.circumstances).text.rstrip(",")
        text = f"what {clause.verb.third} {clause.particle} {told}?"
        return " ".join(capitalise(text).split())
    who = "who" if not clause.subject.startswith("the ") else rng.choice(("who", "who or what"))
    slots = {**_forms(clause), "who": who, "tail": f"{clause.thing} {clause.particle}"}
    text = expand(rng.choice(template_list("clauses", "questions for the subject")), rng, slots)
    return " ".join(capitalise(text).split()) + "?"


def _ask_for_thing(clause: Clause, rng: Random) -> str:
    wh = rng.choice((f"which {clause.sort}", f"what {clause.sort}")) if clause.sort else "what"
    told = rng.choice(clause.circumstances).text.rstrip(",")
    slots = {**_forms(clause), "wh": wh, "told": told}
    text = expand(rng.choice(template_list("clauses", "questions for the object")), rng, slots)
    return " ".join(capitalise(text).split()) + "?"


def _missing(clause: Clause, clauses: list[Clause], rng: Random, style: StyleConfig) -> Question:
    """Ask for what is not said of the thing, or for the same of another thing."""
    if rng.random() < 0.5:
        told = {word for one in clause.circumstances for word in one.asked}
        other = draw_until(
            lambda one: not told & set(one.asked), lambda: rng.choice(_UNRELATED)(rng, style)
        )
        if not _may_answer(other, clause):
            return Question(_ask(clause, other, rng, style), REFUSAL, "unanswerable")
    topics = {one.topic for one in clauses}
    draw = _draw_clause if clause.thing else _draw_happening
    strange = draw_until(
        lambda one: one.topic not in topics and bool(one.thing) == bool(clause.thing),
        lambda: draw(rng, style),
    )
    one = rng.choice(clause.circumstances)
    asked = replace(strange, verb=clause.verb, particle=clause.particle)
    return Question(_ask(asked, one, rng, style), REFUSAL, "unanswerable")


def _may_answer(other: Circumstance, clause: Clause) -> bool:
    """Whether something said of the thing might be taken for what is asked."""
    heads = {one.asked[0].split(" ")[0] for one in clause.circumstances}
    return other.asked[0].split(" ")[0] in heads or bool({"when", "how", "at"} & heads)


_UNRELATED = tuple(CIRCUMSTANCES[name] for name in ("where", "means", "sum", "often", "person"))
