"""Small changes of English text: capitals, articles, enumerations."""

import re
from collections.abc import Sequence
from functools import cache

from training.data.templates import word_lists

_VOWEL = re.compile(r"\ba (?=[aeio])")


@cache
def function_words(name: str) -> frozenset[str]:
    """The words of a section of tables/function_words.txt."""
    return frozenset(word_lists("function_words")[name])


def capitalise(text: str) -> str:
    """Raise the first letter; leave the rest as it is."""
    return text[:1].upper() + text[1:]


def lower_first(text: str) -> str:
    """Lower the first letter unless the first word is a name, an acronym or `I`."""
    first = text.split(" ", 1)[0]
    if not (first[:1].isupper() and first[1:].islower()):
        return text
    is_plain = first.lower() in function_words("sentence starts")
    return text[:1].lower() + text[1:] if is_plain else text


def join_words(items: Sequence[str]) -> str:
    """a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def fix_article(text: str) -> str:
    """Write `an` before a vowel."""
    return _VOWEL.sub("an ", text)


def plural(name: str) -> str:
    """Plural of an attribute's noun: of the word before `of`, or of the last one."""
    head, mark, rest = name.partition(" of ")
    if head.endswith("s") and not head.endswith("ss"):
        return name
    tail = "es" if head.endswith(("ch", "sh", "x", "ss")) else "s"
    if head.endswith("y") and head[-2:-1] not in "aeiou":
        head, tail = head[:-1], "ies"
    return head + tail + mark + rest
