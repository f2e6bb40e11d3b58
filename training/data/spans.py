"""What may be asked for in a sentence: types of spans, and the question words for each."""

import re
from dataclasses import dataclass
from functools import cache
from random import Random

from training.data.text import function_words
from training.data.verbs import irregular_verbs

_UNIT = (
    r"(?:(?:[a-z]+-)?(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|miles?|feet|inches"
    r"|yards?|metres?|meters?|pounds?)|km|kilometers?|kilometres?|acres?|tons?|tonnes|degrees?"
    r"|percent|per cent|dollars|shillings|guineas|francs|crowns|gallons?|leagues|fathoms|°[CF]|%"
    r"|kilograms?|grams|litres?|liters?|watts|kilowatts|volts|horsepower|hectares|bushels|ounces"
    r"|millimetres|centimetres|knots|pints|quarts|barrels|euros|cents|rods|cubits)"
)
_NUMBER = (
    r"(?:\d[\d,.]*\d|\d|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty"
    r"|thirty|forty|fifty|sixty|hundred|a hundred|a thousand|a dozen)"
)
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
)
_NAME = r"[A-Z][\w'\u2019]+(?:(?: of| de| von| the)? [A-Z][\w'\u2019]+)*"
_NO_NAME = (
    r"(?:He|She|It|They|We|You|This|That|These|Those|There|Here|What|Who|Which|When|Where|No|Not"
    r"|All|Some|Many|Most|Each|Both|One|Another|Others|Nobody|Nothing|Everything|Such|After|Before)"
)
_NO_NOUN = (
    r"(?:their|then|than|that|this|these|those|there|here|when|where|while|which|whose|whom|what"
    r"|even|also|only|more|most|less|least|much|many|some|such|other|others|been|being|were|have"
    r"|with|without|from|into|upon|over|under|after|before|until|because|although|though|since"
    r"|could|would|should|might|will|must|does|each|every|both|either|neither|very|just|again"
    r"|they|them|your|about|through|between|during|among|however|therefore|perhaps|still|never)"
)
_APPOSITION = re.compile(
    rf"(?<![A-Z] )(?P<name>{_NAME}), (?P<what>(?:the|an?) [a-z][^,.;:()]{{8,60}})[,.;]"
)


SHARES = (4, 2, 2, 3, 6, 6, 1, 2, 5, 4, 3, 6, 4, 1, 1, 1)


@dataclass(frozen=True)
class SpanType:
    """A type of span: its pattern, and the question words for it.

    Attributes:
        wh: with {u} for the span's unit or noun, {h} for its last word, {p} for the preposition
            before it.
        prepositional: the same for spans behind a preposition.
    """

    pattern: re.Pattern[str]
    wh: tuple[str, ...]
    prepositional: tuple[str, ...] = ()


@cache
def subject_pattern() -> re.Pattern[str]:
    """A name at the beginning of a sentence, before its verb."""
    return re.compile(rf"^(?!{_NO_NAME}\b)(?:The )?{_NAME}(?= {_verb()}\b)")


@cache
def _verb() -> str:
    """A pattern of verbs, as far as their looks tell."""
    past = "|".join(sorted({past for past, _ in irregular_verbs().values()}))
    return rf"(?:is|are|were|has|have|can|could|would|will|may|[a-z]{{3,}}ed|{past})"


@cache
def span_types() -> tuple[SpanType, ...]:
    """All types of spans, with the question words for each."""
    verb = _verb()
    return (
        SpanType(
            re.compile(rf"\b{_NUMBER} (?P<u>{_UNIT})(?!\w)"),
            ("how many {u}", "how much", "how many {u}", "what"),
            ("{p} how many {u}", "{p} what", "how far", "how long"),
        ),
        SpanType(
            re.compile(
                rf"\b(?:\d{{1,2}} {_MONTH}(?: \d{{4}})?|{_MONTH} \d{{1,2}}(?:, \d{{4}})?)\b"
            ),
            ("when", "what date", "on which day"),
            ("when", "on what date", "on which day"),
        ),
        SpanType(
            re.compile(r"\b1[0-9]\d\d\b|\b20[0-4]\d\b"),
            ("when", "what year"),
            ("when", "in what year", "in which year", "when"),
        ),
        SpanType(
            re.compile(rf"\b(?P<a>{_NUMBER}) (?P<u>[a-z]{{3,}}s)\b"),
            ("how many {u}", "what number of {u}"),
            ("{p} how many {u}",),
        ),
        SpanType(
            re.compile(rf"(?<=[a-z,;] ){_NAME}"),
            ("who", "what", "which person", "who", "whom", "which {h}", "what {h}"),
            (
                "{p} whom",
                "{p} whom",
                "{p} what",
                "where",
                "{p} which place",
                "who",
                "{p} which {h}",
            ),
        ),
        SpanType(
            re.compile(
                r"\b(?:the|a|an|his|her|their|its) (?:[a-z]{4,} )?[a-z]{4,}"
                r"(?<! which)(?<! that)"
                r"(?= (?:of|in|and|was|is|to|with|on|for|by|at|from|that|which)\b|[,.;])"
            ),
            ("what", "what", "which thing", "what kind of thing", "who"),
            ("{p} what", "what", "where", "{p} which thing", "how"),
        ),
        SpanType(
            re.compile(r"(?<= )[a-z]{5,}ing [a-z]+(?: [a-z]{3,}){1,4}(?=[,.;])"),
            ("what", "doing what", "how"),
            ("{p} doing what", "how", "why"),
        ),
        SpanType(
            re.compile(
                r"(?<=because )[a-z][\w' ]{10,60}(?=[,.;])|(?<= to )[a-z]{3,} [\w' ]{6,50}(?=[,.;])"
            ),
            ("why", "for what reason", "what", "what was done"),
        ),
        SpanType(
            subject_pattern(),
            ("who", "what", "who", "what", "which {h}"),
        ),
        SpanType(
            re.compile(rf"^(?:The|An?|Some|Many) [a-z]+(?: [a-z]{{4,}})??(?= {verb}\b)"),
            ("what", "which thing", "who", "what {h}", "which {h}"),
        ),
        SpanType(
            re.compile(
                r"[$\u00a3\u20ac]\s?\d[\d,.]*\d?(?: [mb]illion)?|\b\d[\d,.]*\s?%"
                rf"|\b{_NUMBER} per ?cent\b"
            ),
            ("how much", "what percentage", "what amount", "what", "what share"),
            ("{p} how much", "how much", "{p} what amount", "what"),
        ),
        SpanType(
            re.compile(
                r"(?:(?<= of )|(?<= by )|(?<= for )|(?<= with )|(?<= as )|(?<= from )|(?<= into )"
                rf"|(?<= and )|(?<= or )|(?<= called )|(?<= in )|(?<=, ))(?!{_NO_NOUN}\b)"
                r"(?!\w+ly\b)"
                r"[a-z]{4,}(?: [a-z]{4,})?"
                r"(?=[,.;:]"
                r"| (?:and|or|in|for|to|was|were|is|are|of|from|by|with|that|which|on|at)\b)"
            ),
            ("what", "what", "which thing", "what kind of thing", "what {h}"),
            ("{p} what", "what", "{p} which thing", "how", "{p} what kind of thing"),
        ),
        SpanType(
            re.compile(
                r"\b(?:the|a|an|his|her|their|its) [a-z]{4,} (?P<u>[a-z]{4,})"
                r"(?= (?:of|in|and|was|is|to|with|on|for|by|at|from|that|which)\b|[,.;])"
            ),
            ("what {u}", "which {u}", "what kind of {u}", "what sort of {u}"),
            ("{p} what {u}", "{p} which {u}", "what {u}"),
        ),
        SpanType(
            re.compile(r"[\"\u201c](?P<a>[^\"\u201c\u201d]{3,45}?)[,.!?]?[\"\u201d]"),
            ("what", "what words", "which title", "what name", "what was said"),
            ("{p} what name", "what", "{p} which words"),
        ),
        SpanType(
            re.compile(r"(?<= )(?:when|after|before|until|while) [a-z][\w' ]{8,50}(?=[,.;])"),
            ("when", "when", "at what time"),
        ),
        SpanType(
            re.compile(r"(?<= )by (?P<a>[a-z]{3,}ing [\w' ]{4,50})(?=[,.;])"),
            ("how", "by what means", "in what way", "by doing what"),
        ),
    )


def head_of(span: str) -> str:
    """The noun that a span of several words ends in, as far as its looks tell; or nothing."""
    words = span.split(" ")
    few = 3 if words[0].lower() in ("the", "a", "an", "his", "her", "their", "its") else 2
    head = words[-1].lower()
    is_noun = (
        head in function_words("heads of names")
        if words[-1][:1].isupper()
        else head.isalpha() and len(head) > 3
    )
    return head if len(words) >= few and is_noun else ""


def apposed(sentence: str, rng: Random) -> tuple[str, str] | None:
    """Of `Vane, the last miller,` a question for the name or for what it is, and the answer."""
    found = _APPOSITION.search(sentence)
    if not found:
        return None
    name, what = found["name"], found["what"]
    if rng.random() < 0.6:
        return f"{rng.choice(('Who', 'What', 'Who', 'Which one'))} was {what}?", name
    return f"{rng.choice(('Who was', 'What was', 'What is said of', 'What kind of'))} {name}?", what
