"""Questions out of the sentences of a text: a span is asked for by what stands around it.

Cloze translation by Lewis et al. 2019 (arXiv:1906.04980): the sentence with its gap becomes a
question, by a question word and a little grammar, or by noise alone (words left out and moved).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from reader.data.facts import Chunk, Plant, Question
from reader.data.speech import Voice, say_question
from reader.data.template import capitalise, words_of
from reader.data.verbs import base_of_past
from reader.data.wordings import REFUSAL

_SENTENCE = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"”']))\s+(?=[A-Z\"“])")
_CUT = re.compile(
    r"[,;:()—]|--|\s-\s| (?=(?:and|but|while|although|because|since|which|who|whose|when|where)\b)"
)
_PREPOSITION = re.compile(
    r"\b(in|at|on|to|from|by|with|of|for|into|under|near|after|before|during|between|until|about"
    r"|through|over|against|within|without)(?: the| a| an| his| her| their| its)?$"
)
_AUXILIARIES = words_of(
    """is was are were has have had can could will would may might must should shall does do did
    isn't wasn't didn't"""
)
_UNIT = (
    r"(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|miles?|feet|inches|yards?|metres?"
    r"|meters?|km|kilometers?|kilometres?|acres?|pounds?|tons?|degrees?|percent|per cent|dollars"
    r"|shillings|guineas|francs|crowns|gallons?|leagues|fathoms|°[CF]|%)"
)
_NUMBER = (
    r"(?:\d[\d,.]*\d|\d|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty"
    r"|thirty|forty|fifty|sixty|hundred|a hundred|a thousand|a dozen)"
)
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
)
_NAME = r"[A-Z][\w'\u2019]+(?:(?: of| de| von| the)? [A-Z][\w'\u2019]+)*"


@dataclass(frozen=True)
class _Sort:
    """A sort of span: its pattern, and the question words for it.

    Attributes:
        wh: with {u} for the span's unit or noun, {p} for the preposition before it.
        prepositional: the same for spans behind a preposition.
    """

    pattern: re.Pattern[str]
    wh: tuple[str, ...]
    prepositional: tuple[str, ...] = ()


_SORTS = (
    _Sort(
        re.compile(rf"\b{_NUMBER} (?P<u>{_UNIT})(?!\w)"),
        ("how many {u}", "how much", "how many {u}", "what"),
        ("{p} how many {u}", "{p} what", "how far", "how long"),
    ),
    _Sort(
        re.compile(rf"\b(?:\d{{1,2}} {_MONTH}(?: \d{{4}})?|{_MONTH} \d{{1,2}}(?:, \d{{4}})?)\b"),
        ("when", "what date", "on which day"),
        ("when", "on what date", "on which day"),
    ),
    _Sort(
        re.compile(r"\b1[0-9]\d\d\b|\b20[0-4]\d\b"),
        ("when", "what year"),
        ("when", "in what year", "in which year", "when"),
    ),
    _Sort(
        re.compile(rf"\b(?P<a>{_NUMBER}) (?P<u>[a-z]{{3,}}s)\b"),
        ("how many {u}", "what number of {u}"),
        ("{p} how many {u}",),
    ),
    _Sort(
        re.compile(rf"(?<=[a-z,;] ){_NAME}"),
        ("who", "what", "which person", "who", "whom"),
        ("{p} whom", "{p} what", "where", "{p} which place", "in what place", "by whom", "who"),
    ),
    _Sort(
        re.compile(
            r"\b(?:the|a|an|his|her|their|its) (?:[a-z]{4,} )?[a-z]{4,}"
            r"(?<! which)(?<! that)"
            r"(?= (?:of|in|and|was|is|to|with|on|for|by|at|from|that|which)\b|[,.;])"
        ),
        ("what", "what", "which thing", "what kind of thing", "who"),
        ("{p} what", "what", "where", "{p} which thing", "how"),
    ),
    _Sort(
        re.compile(r"(?<= )[a-z]{5,}ing [a-z]+(?: [a-z]{3,}){1,4}(?=[,.;])"),
        ("what", "doing what", "how"),
        ("{p} doing what", "how", "why"),
    ),
    _Sort(
        re.compile(
            r"(?<=because )[a-z][\w' ]{10,60}(?=[,.;])|(?<= to )[a-z]{3,} [\w' ]{6,50}(?=[,.;])"
        ),
        ("why", "for what reason", "what", "what was done"),
    ),
)  # fmt: skip
_SHARES = (4, 2, 2, 3, 6, 8, 1, 1)
_REACH = 11  # words on each side of a gap that a question keeps
_LEFT_OUT = 0.08
_GLUE = words_of(
    """the a an of in on at to by for from with and or that this these those it its he his she her
    they their him them we our us you your i my me as so not no then there here than but very more
    who which what when where how is was are were be been has have had did does do"""
)


def ask_about(sentence: str, rng: Random, voice: Voice) -> tuple[str, str] | None:
    """A question made of a sentence, and the span that answers it; nothing where none fits."""
    for sort in dict.fromkeys(rng.choices(_SORTS, _SHARES, k=4)):
        found = list(sort.pattern.finditer(sentence))
        if not found:
            continue
        match = rng.choice(found)
        named = match.groupdict()
        answer = named.get("a") or match.group()
        left, right = _surroundings(sentence, match, rng)
        if _is_telling(left + right):
            text = _question(left, right, sort, named.get("u") or "", rng)
            return say_question(text, rng, voice), _bare(answer, rng)
    return None


def plant_sentences(text: str, rng: Random, voice: Voice, *, left_out: float = _LEFT_OUT) -> Plant:
    """A text and questions about its sentences.

    Args:
        left_out: share of the sentences that are not in the text; their questions have no answer.
    """
    kept: list[str] = []
    questions: list[Question] = []
    for sentence in split_sentences(text):
        is_kept = rng.random() >= left_out
        if is_kept:
            kept.append(sentence)
        for _ in range(rng.choice((0, 1, 1))):
            found = ask_about(sentence, rng, voice)
            if found and is_kept:
                questions.append(Question(*found, "translated"))
            elif found and rng.random() < voice.refusals:
                questions.append(Question(found[0], REFUSAL, "unanswerable"))
    return Plant((Chunk(" ".join(kept), is_block=True),), tuple(questions))


def split_sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return _SENTENCE.split(" ".join(text.split()))


def _surroundings(sentence: str, match: re.Match[str], rng: Random) -> tuple[list[str], list[str]]:
    """Words before and after the span: of its clause, or of the whole sentence."""
    left, right = sentence[: match.start()], sentence[match.end() :]
    if rng.random() < 0.8:
        parts = (_CUT.split(left)[-1], _CUT.split(right)[0])
        if _is_telling((parts[0] + parts[1]).split()):
            left, right = parts
    before, after = left.strip(" \"“'").split(), right.strip(" \"”'.!?;,").split()
    if before and before[0].lower() in _GLUE:
        before[0] = before[0].lower()
    return before[-_REACH:], after[:_REACH]


def _is_telling(words: Iterable[str]) -> bool:
    """Whether words enough are left that can be found again."""
    kept = {word.strip(".,;:'\"").lower() for word in words} - _GLUE
    return len({word for word in kept if len(word) > 3}) >= 3


def _bare(answer: str, rng: Random) -> str:
    """Most people leave the article out."""
    first, _, rest = answer.partition(" ")
    return rest if first in ("the", "a", "an") and rest and rng.random() < 0.5 else answer


def _question(left: list[str], right: list[str], sort: _Sort, unit: str, rng: Random) -> str:
    before = " ".join(left)
    found = _PREPOSITION.search(before)
    pool, preposition = sort.wh, ""
    if found and sort.prepositional and rng.random() < 0.85:
        pool, preposition = sort.prepositional, found.group(1)
        left = before[: found.start()].split()
    elif found and before != found.group(1):
        left = before[: found.end(1)].split() + before[found.end() :].split()
    wh = rng.choice(pool).replace("{u}", unit).replace("{p}", preposition)
    form = rng.choices(_FORMS, _FORM_SHARES)[0]
    return form(wh, left, right, rng)


def _inverted(wh: str, left: list[str], right: list[str], rng: Random) -> str:
    """The question word, the auxiliary, and the rest: as grammar asks for."""
    if not left:
        return _finish([wh, *right])
    for place, word in enumerate(left[1:9], 1):
        if word.lower() in _AUXILIARIES:
            return _finish([wh, word.lower(), *left[:place], *left[place + 1 :], *right])
        base = base_of_past(word)
        if base:
            return _finish([wh, "did", *left[:place], base, *left[place + 1 :], *right])
    return _noisy(wh, left, right, rng)


def _in_place(wh: str, left: list[str], right: list[str], rng: Random) -> str:
    del rng
    return _finish([*left, wh, *right])


def _noisy(wh: str, left: list[str], right: list[str], rng: Random) -> str:
    """The question word, and the other words with some left out and some moved a little."""
    words = [word for word in (*left, *right) if rng.random() > (0.3 if word in _GLUE else 0.12)]
    places = sorted(range(len(words)), key=lambda place: place + rng.uniform(0, 2.5))
    return _finish([wh, *(words[place] for place in places)])


def _swapped(wh: str, left: list[str], right: list[str], rng: Random) -> str:
    """What stands behind the gap first."""
    if len(right) < 2:
        return _inverted(wh, left, right, rng)
    return _finish([*right, ",", wh, *left]).replace(" ,", ",")


def _finish(words: list[str]) -> str:
    text = " ".join(words).strip(" ,;:")
    return capitalise(re.sub(r"[,;:.]*$", "", text)) + "?"


_FORMS: tuple[Callable[[str, list[str], list[str], Random], str], ...] = (
    _inverted,
    _in_place,
    _noisy,
    _swapped,
)
_FORM_SHARES = (6, 1, 4, 1)
