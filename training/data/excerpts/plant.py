"""Plants of excerpts: one of them, or several that differ in what they are about."""

import re
from collections.abc import Sequence
from random import Random

from training.data import words
from training.data.excerpts.case import Case, draw_cases
from training.data.excerpts.excerpt import Excerpt, excerpts
from training.data.facts import Chunk, Plant, Question, claim
from training.data.slots import ENTITY_KINDS
from training.data.speech import Voice, fix_article, say_question, say_sentence
from training.data.synonyms import reword
from training.data.template import capitalise, expand, slots_of, words_of
from training.data.wordings import REFUSAL

_TOLD = (1, 1, 2, 2, 3)  # of an excerpt with a key: so many of them, about one thing each
_ASKED = (1, 4)  # questions of each, from and to
_MARKED_SHARE = 0.3  # of the tellings: with a preamble or a tail
_BLOCK_SHARE = 0.3  # of the tellings: lines of their own
_BESIDE_SHARE = 0.4  # of several of a kind: told side by side, as texts mostly tell them
_LINE_SHARE = 0.4  # of these: the next one stands on a new line
_REWORDED = (0.0, 0.0, 0.3)  # of the words with synonyms, in training: each as often
_MARKS = ("", "", "", "- ", "* ", "1. ", "NOTE: ", "> ")
_SLOT = re.compile(r"(\{\w+\})")
_COUNTED = words_of("pages seats sheets lines drops crates loads grains dozen spoonfuls")
_UNITS = {*words.TIME_UNITS, *words.UNITS, "kilos"} - _COUNTED
_UNIT = re.compile(rf" (?:{'|'.join(sorted(map(re.escape, _UNITS), key=len, reverse=True))})\b")


def plant_excerpts(rng: Random, voice: Voice, excerpt: Excerpt | None = None) -> Plant:
    """An excerpt of the voice's side of the split, or several of the kind, and questions.

    Args:
        excerpt: this one instead of any.
    """
    if excerpt is None:
        excerpt = rng.choice(excerpts(held_out=voice.wordings == "held_out"))
    count = _how_many(excerpt, rng)
    *cases, other = draw_cases(excerpt, count + 1, rng, voice)
    chunks, questions = [], []
    for slots in cases:
        telling = _reworded(rng.choice(excerpt.tellings), rng, voice)
        chunks.append(_tell(telling, slots, rng, voice))
        asked = _asked_of(excerpt, telling, slots, is_alone=count == 1)
        for text, answer in rng.sample(asked, min(len(asked), rng.randint(*_ASKED))):
            said = fix_article(expand(answer, rng, slots))
            questions.append(ask_excerpt(text, slots, said, rng, voice))
    if rng.random() < voice.refusals:
        questions += _ask_unsaid(excerpt, rng.choice(cases), other, rng, voice)
    if count > 1 and rng.random() < _BESIDE_SHARE:
        chunks = [join_chunks(chunks, rng)]
    return Plant(tuple(chunks), tuple(questions), _claims(excerpt, cases))


def join_chunks(chunks: Sequence[Chunk], rng: Random) -> Chunk:
    """All of them as one text, of several paragraphs now and then."""
    text = ""
    for chunk in chunks:
        ends = chunk.is_block or rng.random() < _LINE_SHARE
        text += chunk.text + ("\n" if ends else " ")
    return Chunk(text.rstrip(), is_block=True)


def _how_many(excerpt: Excerpt, rng: Random) -> int:
    """How many of the kind are told; one that is told of none is left to be asked for."""
    if not excerpt.key:
        return 1
    options = excerpt.options.get(excerpt.key)
    count = rng.choice(_TOLD)
    return min(count, len(options) - 1) if options else count


def _tell(telling: str, slots: Case, rng: Random, voice: Voice) -> Chunk:
    text = expand(telling, rng, slots).strip()
    if rng.random() < _MARKED_SHARE:
        text = say_sentence(text, rng, voice)
    else:
        text = capitalise(fix_article(text)) + ("" if text.endswith((".", "!")) else ".")
    is_block = rng.random() < _BLOCK_SHARE
    return Chunk((rng.choice(_MARKS) if is_block else "") + text, is_block)


def _asked_of(
    excerpt: Excerpt, telling: str, slots: Case, *, is_alone: bool
) -> list[tuple[str, str]]:
    """The questions that this telling answers; beside others of the kind, those with the key."""
    told = slots_of(telling)
    text = expand(telling, Random(0), slots).lower()
    return [
        (question, _with_unit(answer, telling))
        for question, answer in excerpt.questions
        if slots_of(question) | slots_of(answer) <= told
        and (is_alone or excerpt.key in slots_of(question))
        and expand(answer, Random(0), slots).lower() in text
    ]


def _with_unit(answer: str, telling: str) -> str:
    """The answer with the unit of measure that follows it: 36 hours, whatever is asked."""
    unit = _UNIT.match(telling.partition(answer)[2])
    return answer + unit.group() if unit and _SLOT.fullmatch(answer) else answer


def ask_excerpt(text: str, slots: Case, answer: str, rng: Random, voice: Voice) -> Question:
    """A question of an excerpt as it is asked, now and then in synonyms of its words."""
    text = _reworded(text, rng, voice)
    asked = say_question(fix_article(expand(text, rng, slots)), rng, voice)
    return Question(asked, answer, "unanswerable" if answer == REFUSAL else "excerpt")


def _reworded(text: str, rng: Random, voice: Voice) -> str:
    """A template with synonyms of some of its words, in training."""
    share = rng.choice(_REWORDED) if voice.noise else 0.0
    return "".join(
        part if place % 2 else reword(part, rng, share)
        for place, part in enumerate(_SLOT.split(text))
    )


def _ask_unsaid(
    excerpt: Excerpt, told: Case, other: Case, rng: Random, voice: Voice
) -> list[Question]:
    """What no telling answers, and what is told of one is asked of another."""
    keyed = [text for text, _ in excerpt.questions if excerpt.key in slots_of(text)]
    pairs = [(text, told) for text in excerpt.unsaid] + [
        (text, {**told, excerpt.key: other[excerpt.key]}) for text in keyed
    ]
    chosen = rng.sample(pairs, min(len(pairs), rng.choice((1, 1, 2))))
    return [ask_excerpt(text, slots, REFUSAL, rng, voice) for text, slots in chosen]


def _claims(excerpt: Excerpt, cases: list[Case]) -> frozenset[str]:
    """The excerpt itself and the names in it."""
    named = ("person", "org", "place", "brand", "make", *ENTITY_KINDS)
    names = [case[name] for case in cases for name, kind in excerpt.kinds.items() if kind in named]
    return claim(excerpt.tellings[0], *names)
