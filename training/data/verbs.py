"""Forms of verbs: what a question needs in order to turn a sentence around."""

from dataclasses import dataclass

_IRREGULAR = """
be was been; beat beat beaten; become became become; begin began begun; bend bent bent;
bind bound bound; bite bit bitten; blow blew blown; break broke broken; bring brought brought;
build built built; buy bought bought; catch caught caught; choose chose chosen; come came come;
cost cost cost; dig dug dug; do did done; draw drew drawn; drink drank drunk; drive drove driven;
eat ate eaten; fall fell fallen; feed fed fed; feel felt felt; fight fought fought;
find found found; fly flew flown; forbid forbade forbidden; forget forgot forgotten;
freeze froze frozen; get got got; give gave given; go went gone; grow grew grown;
grind ground ground; hang hung hung; have had had; hear heard heard; hide hid hidden;
hit hit hit; hold held held;
keep kept kept; know knew known; lay laid laid; lead led led; leave left left; lend lent lent;
let let let; lie lay lain; light lit lit; lose lost lost; make made made; mean meant meant;
meet met met; pay paid paid; put put put; read read read; ride rode ridden; ring rang rung;
rise rose risen; run ran run; say said said; see saw seen; seek sought sought; sell sold sold;
send sent sent; set set set; shake shook shaken; shoot shot shot; show showed shown;
shut shut shut; sing sang sung; sink sank sunk; sit sat sat; sleep slept slept; slide slid slid;
speak spoke spoken; spend spent spent; spin spun spun; split split split; spread spread spread;
stand stood stood; steal stole stolen; stick stuck stuck; strike struck struck; sweep swept swept;
swim swam swum; swing swung swung; take took taken; teach taught taught; tear tore torn;
tell told told; think thought thought; throw threw thrown; understand understood understood;
wear wore worn; weave wove woven; win won won; wind wound wound; write wrote written
"""
_VOWELS = "aeiou"


@dataclass(frozen=True)
class Verb:
    """A verb's forms: to grind, grinds, ground, (has) ground, grinding."""

    base: str
    third: str
    past: str
    participle: str
    gerund: str


def _irregular() -> dict[str, tuple[str, str]]:
    rows = (row.split() for row in _IRREGULAR.replace("\n", " ").split(";"))
    return {base: (past, participle) for base, past, participle in rows}


IRREGULAR = _irregular()
_BASES = {past: base for base, (past, _) in IRREGULAR.items() if base != "be"}


def verb_of(base: str) -> Verb:
    """All forms of a verb, by rule unless it is a known exception."""
    past, participle = IRREGULAR.get(base, (_add(base, "ed"),) * 2)
    return Verb(base, third_person(base), past, participle, _add(base, "ing"))


def third_person(base: str) -> str:
    """The form for he, she and it."""
    if base in ("be", "have"):
        return {"be": "is", "have": "has"}[base]
    if base.endswith("y") and base[-2] not in _VOWELS:
        return f"{base[:-1]}ies"
    return base + ("es" if base.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


def base_of_past(word: str) -> str | None:
    """The base of a past tense, as far as its looks tell; nothing for other words."""
    if word in _BASES:
        return _BASES[word]
    if len(word) < 5 or not word.endswith("ed"):
        return None
    stem = word[:-2]
    if stem.endswith("i"):
        return f"{stem[:-1]}y"
    if stem[-1] == stem[-2] and stem[-1] in "bdgmnprt":
        return stem[:-1]
    is_short = stem[-1] in "cgsuvz" or (stem[-1] not in "wxyrlnd" and _is_open(stem))
    return f"{stem}e" if is_short else stem


def _is_open(stem: str) -> bool:
    """One vowel before one consonant: hop-, but not help- or heap-."""
    return (
        len(stem) > 2
        and stem[-1] not in _VOWELS
        and stem[-2] in _VOWELS
        and stem[-3] not in _VOWELS
    )


def _add(base: str, tail: str) -> str:
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")):
        return base[:-1] + tail
    if base.endswith("y") and base[-2] not in _VOWELS and tail == "ed":
        return f"{base[:-1]}ied"
    num_vowels = sum(letter in _VOWELS for letter in base)
    is_doubled = num_vowels == 1 and base[-1] not in "wxy" and _is_open(base)
    return (base + base[-1] if is_doubled else base) + tail
