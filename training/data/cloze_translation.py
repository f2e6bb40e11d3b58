"""Questions out of the sentences of a text: a span is asked for by what stands around it.

Cloze translation by Lewis et al. 2019 (arXiv:1906.04980): the sentence with its gap becomes a
question, by a question word and a little grammar, or by noise alone (words left out and moved).
"""

import re
from collections.abc import Callable, Iterable
from random import Random

from training.data.facts import REFUSAL, Chunk, Needle, Question
from training.data.noise import recast, strip_down
from training.data.phrasing import StyleConfig, say_question
from training.data.spans import SHARES, SpanType, apposed, head_of, span_types, subject_pattern
from training.data.synonyms import reword
from training.data.text import capitalise, function_words
from training.data.verbs import base_of_past

_SENTENCE = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"”']))\s+(?=[A-Z\"“])")
_CUT = re.compile(
    r"[,;:()—]|--|\s-\s| (?=(?:and|but|while|although|because|since|which|who|whose|when|where)\b)"
)
_NAME_PART = re.compile(r"[A-Z][\w'\u2019.]*|\d+(?:st|nd|rd|th)")
_PREPOSITION = re.compile(
    r"\b(in|at|on|to|from|by|with|of|for|into|under|near|after|before|during|between|until|about"
    r"|through|over|against|within|without)(?: the| a| an| his| her| their| its)?$"
)
_REACHES = (4, 6, 8, 11, 16)  # words on each side of a gap that a question keeps
_LEFT_OUT = 0.08
_APPOSED_SHARE = 0.3  # of the sentences with an apposition: they are asked for it
_REWORDED = (0.0, 0.0, 0.3, 0.6)  # of a question's words that have synonyms: each as often
_PRONOUN = re.compile(r"^(?:He|She|It|They|This)(?= [a-z])|^(?:His|Her|Its|Their)(?= [a-z])")


def ask_about(sentence: str, rng: Random, style: StyleConfig) -> tuple[str, str] | None:
    """A question made of a sentence, and the span that answers it; nothing where none fits."""
    found = apposed(sentence, rng) if rng.random() < _APPOSED_SHARE else None
    if found:
        return say_question(reword(found[0], rng, rng.choice(_REWORDED)), rng, style), found[1]
    for sort in dict.fromkeys(rng.choices(span_types(), SHARES, k=5)):
        matches = [one for one in sort.pattern.finditer(sentence) if not _is_torn(one, sentence)]
        if not matches:
            continue
        match = rng.choice(matches)
        named = match.groupdict()
        answer = named.get("a") or match.group()
        left, right = _surroundings(sentence, match, rng)
        if _is_telling(left + right):
            fill = {"{u}": named.get("u") or "", "{h}": head_of(answer)}
            text = _question(left, right, sort, fill, rng)
            text = reword(text, rng, rng.choice(_REWORDED))
            return say_question(text, rng, style), _bare(answer, rng)
    return None


def _is_torn(match: re.Match[str], sentence: str) -> bool:
    """Whether a name began before the match: Gulf of Leyte Gulf, Amendment of 14th Amendment."""
    before = sentence[: match.start()].rpartition(" ")[0].rpartition(" ")[2]
    if not (match.group()[:1].isupper() and _NAME_PART.fullmatch(before)):
        return False
    return before.lower() not in function_words("glue") and not _PREPOSITION.fullmatch(
        before.lower()
    )


def make_sentence_questions(
    text: str, rng: Random, style: StyleConfig, *, left_out: float = _LEFT_OUT, most: int = 1
) -> Needle:
    """A text and questions about its sentences.

    Args:
        left_out: share of the sentences that are not in the text; their questions have no answer.
        most: questions of a sentence.
    """
    kept: list[str] = []
    questions: list[Question] = []
    subject = ""
    for sentence in split_sentences(text):
        named, subject = name_subject(sentence, subject)
        is_kept = rng.random() >= left_out
        if is_kept:
            kept.append(sentence)
        for _ in range(rng.choice((0, *(most,) * 2))):
            found = ask_about(named, rng, style)
            if found and found[1] not in sentence:
                continue  # the name that stands for a pronoun
            if found and is_kept:
                questions.append(Question(*found, "translated"))
            elif found and rng.random() < style.refusals:
                questions.append(Question(found[0], REFUSAL, "unanswerable"))
    return Needle((Chunk(" ".join(kept), is_block=True),), tuple(questions))


def split_sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return _SENTENCE.split(" ".join(text.split()))


def name_subject(sentence: str, subject: str) -> tuple[str, str]:
    """Put what the sentence before was about in the place of a pronoun at the beginning.

    Args:
        subject: the name that an earlier sentence began with, or nothing.
    Returns: the sentence and its subject.
    """
    pronoun = _PRONOUN.match(sentence)
    if pronoun and subject:
        tail = "'s" if pronoun.group() in ("His", "Her", "Its", "Their") else ""
        return subject + tail + sentence[pronoun.end() :], subject
    began = subject_pattern().match(sentence)
    return sentence, began.group() if began else subject


def _surroundings(sentence: str, match: re.Match[str], rng: Random) -> tuple[list[str], list[str]]:
    """Words before and after the span: of its clause, or of the whole sentence."""
    left, right = sentence[: match.start()], sentence[match.end() :]
    if rng.random() < 0.8:
        parts = (_CUT.split(left)[-1], _CUT.split(right)[0])
        if _is_telling((parts[0] + parts[1]).split()):
            left, right = parts
    before, after = left.strip(" \"“'").split(), right.strip(" \"”'.!?;,").split()
    if before and before[0].lower() in function_words("glue"):
        before[0] = before[0].lower()
    reach = rng.choice(_REACHES)
    return before[-reach:], after[:reach]


def _is_telling(words: Iterable[str]) -> bool:
    """Whether words enough are left that can be found again."""
    kept = {word.strip(".,;:'\"").lower() for word in words} - function_words("glue")
    return len({word for word in kept if len(word) > 3}) >= 3


def _bare(answer: str, rng: Random) -> str:
    """Most people leave the article out."""
    first, _, rest = answer.partition(" ")
    return rest if first in ("the", "a", "an") and rest and rng.random() < 0.5 else answer


def _question(
    left: list[str], right: list[str], sort: SpanType, fill: dict[str, str], rng: Random
) -> str:
    before = " ".join(left)
    found = _PREPOSITION.search(before)
    pool, preposition = sort.wh, ""
    if found and sort.prepositional and rng.random() < 0.85:
        pool, preposition = sort.prepositional, found.group(1)
        left = before[: found.start()].split()
    elif found and before != found.group(1):
        left = before[: found.end(1)].split() + before[found.end() :].split()
    pool = tuple(wh for wh in pool if fill["{h}"] or "{h}" not in wh)
    wh = rng.choice(pool).replace("{p}", preposition)
    for slot, word in fill.items():
        wh = wh.replace(slot, word)
    form = rng.choices(_FORMS, _FORM_SHARES)[0]
    text = form(wh, left, right, rng)
    return recast(text, rng) if form is _inverted else text


def _inverted(wh: str, left: list[str], right: list[str], rng: Random) -> str:
    """The question word, the auxiliary, and the rest: as grammar asks for."""
    del rng
    if not left:
        return _finish([wh, *right])
    for place, word in enumerate(left[1:9], 1):
        if word.lower() in function_words("auxiliaries"):
            return _finish([wh, word.lower(), *left[:place], *left[place + 1 :], *right])
        base = base_of_past(word)
        if base:
            return _finish([wh, "did", *left[:place], base, *left[place + 1 :], *right])
    return _finish([wh, *left, *right])


def _in_place(wh: str, left: list[str], right: list[str], rng: Random) -> str:
    del rng
    return _finish([*left, wh, *right])


def _noisy(wh: str, left: list[str], right: list[str], rng: Random) -> str:
    """The question word, and the other words with some left out and some moved a little."""
    words = [
        word
        for word in (*left, *right)
        if rng.random() > (0.3 if word in function_words("glue") else 0.12)
    ]
    places = sorted(range(len(words)), key=lambda place: place + rng.uniform(0, 2.5))
    return _finish([wh, *(words[place] for place in places)])


def _swapped(wh: str, left: list[str], right: list[str], rng: Random) -> str:
    """What stands behind the gap first."""
    if len(right) < 2:
        return _inverted(wh, left, right, rng)
    return _finish([*right, ",", wh, *left]).replace(" ,", ",")


def _finish(words: list[str]) -> str:
    text = " ".join(words).strip(" ,;:")
    text = re.sub(r"([,;])(?: ?[,;])+", r"\1", text).rstrip(",;:.")
    return capitalise(text) + "?"


def _stripped(wh: str, left: list[str], right: list[str], rng: Random) -> str:
    """Only the words that count."""
    return strip_down(_inverted(wh, left, right, rng), rng)


_FORMS: tuple[Callable[[str, list[str], list[str], Random], str], ...] = (
    _inverted,
    _in_place,
    _noisy,
    _swapped,
    _stripped,
)
_FORM_SHARES = (14, 1, 3, 1, 2)
