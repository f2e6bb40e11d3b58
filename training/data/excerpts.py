"""Needles of excerpts (tables/excerpts): a few sentences as they stand in real documents.

One is told, or several that differ in what they are about, or neighbours in their file, which speak
of the same things: amid a novel the sentence that holds the answer is found by its subject alone;
amid its own kind it has to be told from its neighbours.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random

from training.data.entities import ENTITY_KINDS, draw_slot
from training.data.excerpt_split import EVALUATION, RELEASE, TRAIN, excerpts
from training.data.facts import REFUSAL, Chunk, Needle, Question, claim
from training.data.phrasing import StyleConfig, say_question, say_sentence
from training.data.split import draw_until
from training.data.synonyms import replace_word, reword
from training.data.templates import (
    FactRecord,
    expand,
    slots_of,
    word_list,
)
from training.data.text import capitalise, fix_article

_STATED = (1, 1, 2, 2, 3)  # of an excerpt with a key: so many of them, about one thing each
_ASKED = (1, 4)  # questions of each, from and to
_MARKED_SHARE = 0.3  # of the statements: with a preamble or a tail
_BLOCK_SHARE = 0.3  # of the statements: lines of their own
_BESIDE_SHARE = 0.4  # of several of a kind: side by side, as texts mostly have them
_LINE_SHARE = 0.4  # of these: the next one stands on a new line
_REWORDED = (0.0, 0.0, 0.3)  # of the words with synonyms, in training: each as often
_STRANGE_SHARE = 0.25  # of a slot's own options, in training: with strange words, to be copied
_REPLACED_SHARE = 0.6  # of the words of these
_MARKS = ("", "", "", "- ", "* ", "1. ", "NOTE: ", "> ")
_SLOT = re.compile(r"(\{\w+\})")
_WORD = re.compile(r"\b[a-z]+\b")
_COUNTED = frozenset(
    (
        "pages",
        "seats",
        "sheets",
        "lines",
        "drops",
        "crates",
        "loads",
        "grains",
        "dozen",
        "spoonfuls",
    )
)
_SPREAD = 3  # neighbours are drawn from so many times their number
_SECTION_SHARE = 0.5  # of the neighbours: they stand in one place

Case = Mapping[str, str]  # a value for each slot


def side_of(style: StyleConfig) -> str:
    """The side of the split that a style draws its excerpts from."""
    if style.is_release:
        return RELEASE
    return EVALUATION if style.wordings == "held_out" else TRAIN


def make_excerpts(rng: Random, style: StyleConfig, excerpt: FactRecord | None = None) -> Needle:
    """An excerpt of the style's side of the split, or several of the kind, and questions.

    Args:
        excerpt: this one instead of any.
    """
    if excerpt is None:
        excerpt = rng.choice(excerpts(side_of(style)))
    count = _how_many(excerpt, rng)
    *cases, other = draw_cases(excerpt, count + 1, rng, style)
    chunks, questions = [], []
    for slots in cases:
        statement = _reworded(rng.choice(excerpt.statements), rng, style)
        chunks.append(_state(statement, slots, rng, style))
        asked = _asked_of(excerpt, statement, slots, is_alone=count == 1)
        for text, answer in rng.sample(asked, min(len(asked), rng.randint(*_ASKED))):
            said = fix_article(expand(answer, rng, slots))
            questions.append(ask_excerpt(text, slots, said, rng, style))
    if rng.random() < style.refusals:
        questions += _ask_unanswerable(excerpt, rng.choice(cases), other, rng, style)
    if count > 1 and rng.random() < _BESIDE_SHARE:
        chunks = [join_chunks(chunks, rng)]
    return Needle(tuple(chunks), tuple(questions), _claims(excerpt, cases))


def join_chunks(chunks: Sequence[Chunk], rng: Random) -> Chunk:
    """All of them as one text, of several paragraphs now and then."""
    text = ""
    for chunk in chunks:
        ends = chunk.is_block or rng.random() < _LINE_SHARE
        text += chunk.text + ("\n" if ends else " ")
    return Chunk(text.rstrip(), is_block=True)


def _how_many(excerpt: FactRecord, rng: Random) -> int:
    """How many of the kind are stated; one is left that can be asked for in vain."""
    if not excerpt.key:
        return 1
    options = excerpt.options.get(excerpt.key)
    count = rng.choice(_STATED)
    return min(count, len(options) - 1) if options else count


def _state(statement: str, slots: Case, rng: Random, style: StyleConfig) -> Chunk:
    text = expand(statement, rng, slots).strip()
    if rng.random() < _MARKED_SHARE:
        text = say_sentence(text, rng, style)
    else:
        text = capitalise(fix_article(text)) + ("" if text.endswith((".", "!")) else ".")
    is_block = rng.random() < _BLOCK_SHARE
    return Chunk((rng.choice(_MARKS) if is_block else "") + text, is_block)


def _asked_of(
    excerpt: FactRecord, statement: str, slots: Case, *, is_alone: bool
) -> list[tuple[str, str]]:
    """The questions that this statement answers; beside others of the kind, those with the key."""
    told = slots_of(statement)
    text = expand(statement, Random(0), slots).lower()
    return [
        (question, _with_unit(answer, statement))
        for question, answer in excerpt.questions
        if slots_of(question) | slots_of(answer) <= told
        and (is_alone or excerpt.key in slots_of(question))
        and expand(answer, Random(0), slots).lower() in text
    ]


def _with_unit(answer: str, statement: str) -> str:
    """The answer with the unit of measure that follows it: 36 hours, whatever is asked."""
    unit = _unit_of_measure().match(statement.partition(answer)[2])
    return answer + unit.group() if unit and _SLOT.fullmatch(answer) else answer


def ask_excerpt(text: str, slots: Case, answer: str, rng: Random, style: StyleConfig) -> Question:
    """A question of an excerpt as it is asked, now and then in synonyms of its words."""
    text = _reworded(text, rng, style)
    asked = say_question(fix_article(expand(text, rng, slots)), rng, style)
    return Question(asked, answer, "unanswerable" if answer == REFUSAL else "excerpt")


def _reworded(text: str, rng: Random, style: StyleConfig) -> str:
    """A template with synonyms of some of its words, in training."""
    share = rng.choice(_REWORDED) if style.noise else 0.0
    return "".join(
        part if place % 2 else reword(part, rng, share)
        for place, part in enumerate(_SLOT.split(text))
    )


def _ask_unanswerable(
    excerpt: FactRecord, told: Case, other: Case, rng: Random, style: StyleConfig
) -> list[Question]:
    """What no statement answers, and what is stated of one, asked of another."""
    keyed = [text for text, _ in excerpt.questions if excerpt.key in slots_of(text)]
    pairs = [(text, told) for text in excerpt.unanswerable] + [
        (text, {**told, excerpt.key: other[excerpt.key]}) for text in keyed
    ]
    chosen = rng.sample(pairs, min(len(pairs), rng.choice((1, 1, 2))))
    return [ask_excerpt(text, slots, REFUSAL, rng, style) for text, slots in chosen]


def _claims(excerpt: FactRecord, cases: list[Case]) -> frozenset[str]:
    """The excerpt itself and the names in it."""
    named = ("person", "org", "place", "brand", "make", *ENTITY_KINDS)
    names = [case[name] for case in cases for name, kind in excerpt.kinds.items() if kind in named]
    return claim(excerpt.statements[0], *names)


@cache
def _unit_of_measure() -> re.Pattern[str]:
    """A unit behind a value."""
    units = {*word_list("time units"), *word_list("units"), "kilos"} - _COUNTED
    longest_first = sorted(map(re.escape, units), key=len, reverse=True)
    return re.compile(rf" (?:{'|'.join(longest_first)})\b")


def make_neighbours(rng: Random, style: StyleConfig, count: int) -> Needle:
    """Up to `count` neighbouring excerpts of the style's side of the split, and questions.

    A neighbour that is not in the document is asked about too, where refusals are wanted.
    """
    known = excerpts(side_of(style))
    start = rng.randrange(len(known))
    near = [known[(start + place) % len(known)] for place in range(_SPREAD * count)]
    rng.shuffle(near)
    needles: list[Needle] = []
    claimed: set[str] = set()
    for excerpt in near[:count]:
        needle = make_excerpts(rng, style, excerpt)
        if not claimed & needle.claims:
            claimed |= needle.claims
            needles.append(needle)
    chunks = [chunk for needle in needles for chunk in needle.chunks]
    return Needle(
        (join_chunks(chunks, rng),) if rng.random() < _SECTION_SHARE else tuple(chunks),
        (
            *(question for needle in needles for question in needle.questions),
            *_ask_about_absent(near[count:], len(needles), rng, style),
        ),
        frozenset(claimed),
    )


def _ask_about_absent(
    absent: list[FactRecord], most: int, rng: Random, style: StyleConfig
) -> list[Question]:
    """Questions about neighbours that the document does not have, fewer than `most`."""
    wanted = int(most * style.refusals * rng.random())
    return [_ask_without_answer(excerpt, rng, style) for excerpt in absent[:wanted]]


def _ask_without_answer(excerpt: FactRecord, rng: Random, style: StyleConfig) -> Question:
    (slots,) = draw_cases(excerpt, 1, rng, style)
    text, _ = rng.choice(excerpt.questions)
    return ask_excerpt(text, slots, REFUSAL, rng, style)


def draw_cases(excerpt: FactRecord, count: int, rng: Random, style: StyleConfig) -> list[Case]:
    """Cases of an excerpt: no two values alike within one, and no two keys among them.

    Raises: NothingFits if a slot has too few options.
    """
    cases: list[Case] = []
    for _ in range(count):
        cases.append(_draw_case(excerpt, [case.get(excerpt.key, "") for case in cases], rng, style))
    return cases


def _draw_case(excerpt: FactRecord, keys: list[str], rng: Random, style: StyleConfig) -> Case:
    case: dict[str, str] = {}
    for name in (*excerpt.options, *excerpt.kinds):
        taken = (*case.values(), *(keys if name == excerpt.key else ()))
        case[name] = _draw_other(excerpt, name, taken, rng, style)
    return case


def _draw_other(
    excerpt: FactRecord, name: str, taken: tuple[str, ...], rng: Random, style: StyleConfig
) -> str:
    return draw_until(lambda value: value not in taken, lambda: _draw(excerpt, name, rng, style))


def _draw(excerpt: FactRecord, name: str, rng: Random, style: StyleConfig) -> str:
    if name in excerpt.options:
        return _strange(rng.choice(excerpt.options[name]), rng, style)
    return draw_slot(excerpt.kinds[name], rng, held_out=style.held_out)


def _strange(option: str, rng: Random, style: StyleConfig) -> str:
    """An option, now and then with words that nobody would expect there."""
    if not style.lexicon or rng.random() > _STRANGE_SHARE:
        return option
    return _WORD.sub(
        lambda word: (
            replace_word(word.group(), style.lexicon, rng)
            if rng.random() < _REPLACED_SHARE
            else word.group()
        ),
        option,
    )
