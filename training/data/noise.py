"""Questions as people type them: words left out, small letters, other words, slips of the pen."""

import re
from collections.abc import Mapping
from functools import cache
from random import Random

from training.data.templates import word_lists
from training.data.text import capitalise, function_words, lower_first

_GLUE = re.compile(r"\b(?:the|of|is|a|an|for|does|was|to)\b ")
_WORD = re.compile(r"\b[a-z]{2,}\b")
_ASKED = (
    (re.compile(r"\b(?:in )?(?:what|which) year\b", re.I), ("when", "in which year", "what year")),
    (re.compile(r"^when\b", re.I), ("when", "at what time", "what was the date when")),
    (re.compile(r"^who\b", re.I), ("who", "which person", "what person", "who was it that")),
    (re.compile(r"^where\b", re.I), ("where", "in which place", "at what place", "whereabouts")),
    (re.compile(r"^why\b", re.I), ("why", "for what reason", "how come")),
    (re.compile(r"\bhow many\b", re.I), ("how many", "what number of", "the number of")),
    (re.compile(r"^(?:what|which) (?=is|was|are|were|did|does|do|has|had)", re.I),
     ("what ", "which thing ", "what was it that ", "name what ", "tell what ")),
    (re.compile(r"^(?:what|which) (?=[a-z])", re.I), ("what ", "which ", "name the ")),
)  # fmt: skip
_PHRASE = re.compile(
    r"^(.{12,}\S),? ((?:in|on|at|during|after|before|by|for|from|of|with|under|until)"
    r" [^?]{4,50})\?$"
)


def disturb(text: str, rng: Random) -> str:
    """Change a question in one of the ways in which people depart from the book."""
    luck = rng.random()
    if luck < 0.3:
        return _leave_out(text, rng)
    if luck < 0.55:
        return _exchange(text, rng)
    if luck < 0.75:
        return text.rstrip("?.")
    if luck < 0.85:
        return text.lower()
    return _slip(text, rng)


def blur(text: str, rng: Random) -> str:
    """Leave out some of the small words and a few of the others, so that no two are alike."""
    first, *others = text.split(" ")
    kept = [word for word in others if rng.random() > (0.25 if len(word) < 4 else 0.08)]
    return " ".join([first, *kept])


def recast(text: str, rng: Random) -> str:
    """Another question word, and what ends the question moved to its front: each now and then."""
    if rng.random() < 0.35:
        for asked, others in _ASKED:
            if asked.search(text):
                text = capitalise(asked.sub(rng.choice(others), text, count=1))
                break
    found = _PHRASE.match(text) if rng.random() < 0.3 else None
    if found:
        text = f"{capitalise(found[2])}, {lower_first(found[1])}?"
    return text


def strip_down(text: str, rng: Random) -> str:
    """Only the words that count, as typed into a search box, some of them moved a little."""
    first, *others = text.rstrip("?.").split(" ")
    kept = [
        word
        for word in others
        if word.lower() not in function_words("empty") and rng.random() > 0.1
    ]
    reach = rng.choice((0.0, 0.0, 2.0, 4.0))
    places = sorted(range(len(kept)), key=lambda place: place + rng.uniform(0, reach))
    return " ".join([first, *(kept[place] for place in places)])


def _leave_out(text: str, rng: Random) -> str:
    found = list(_GLUE.finditer(text))
    if not found:
        return text
    place = rng.choice(found)
    return text[: place.start()] + text[place.end() :]


def _exchange(text: str, rng: Random) -> str:
    found = [word for word in _WORD.finditer(text) if word.group() in _synonyms()]
    if not found:
        return text
    word = rng.choice(found)
    return text[: word.start()] + rng.choice(_synonyms()[word.group()]) + text[word.end() :]


@cache
def _synonyms() -> Mapping[str, tuple[str, ...]]:
    groups = (group.split() for group in word_lists("synonyms")["of questions"])
    return {word: tuple(others) for word, *others in groups}


def _slip(text: str, rng: Random) -> str:
    """Two neighbouring letters change places in a common word."""
    found = [word for word in _WORD.finditer(text) if len(word.group()) > 4]
    if not found:
        return text
    word = rng.choice(found)
    place = rng.randrange(word.start() + 1, word.end() - 1)
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
