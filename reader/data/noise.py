"""Questions as people type them: words left out, small letters, other words, slips of the pen."""

import re
from random import Random

_GLUE = re.compile(r"\b(?:the|of|is|a|an|for|does|was|to)\b ")
_SYNONYMS = {
    "what": ("which",),
    "tell": ("show", "give"),
    "give": ("tell", "send"),
    "document": ("text", "page", "file", "article", "paper", "record"),
    "text": ("document", "passage", "page", "writing", "file"),
    "listed": ("noted", "recorded", "mentioned", "named"),
    "given": ("named", "stated", "put", "noted"),
    "find": ("locate", "get", "fetch"),
    "know": ("learn", "hear"),
    "need": ("require", "want"),
    "about": ("on", "regarding"),
    "please": ("kindly", "pls"),
    "mentioned": ("said", "stated", "given"),
}
_WORD = re.compile(r"\b[a-z]{2,}\b")


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


def _leave_out(text: str, rng: Random) -> str:
    found = list(_GLUE.finditer(text))
    if not found:
        return text
    place = rng.choice(found)
    return text[: place.start()] + text[place.end() :]


def _exchange(text: str, rng: Random) -> str:
    found = [word for word in _WORD.finditer(text) if word.group() in _SYNONYMS]
    if not found:
        return text
    word = rng.choice(found)
    return text[: word.start()] + rng.choice(_SYNONYMS[word.group()]) + text[word.end() :]


def _slip(text: str, rng: Random) -> str:
    """Two neighbouring letters change places in a common word."""
    found = [word for word in _WORD.finditer(text) if len(word.group()) > 4]
    if not found:
        return text
    word = rng.choice(found)
    place = rng.randrange(word.start() + 1, word.end() - 1)
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
