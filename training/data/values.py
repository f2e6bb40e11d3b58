"""Values of facts, typed: codes, numbers, money, dates, names, words and phrases."""

from collections.abc import Callable, Mapping
from functools import cache
from random import Random

from training.data.split import draw_name
from training.data.templates import draw_word, word_list

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_DIGITS = "0123456789"
_HEX = "0123456789abcdef"
_SWITCHES = ("true", "false", "on", "off", "enabled", "disabled", "yes", "no")


def draw(kind: str, rng: Random, *, held_out: bool = False) -> str:
    """Draw one value of a kind of VALUE_KINDS.

    Args:
        held_out: names come from the side of the split that is never trained on.
    Raises: KeyError for an unknown kind.
    """
    if kind in _NAMES:
        return draw_name(lambda: _NAMES[kind](rng), held_out=held_out)
    return _MAKERS[kind](rng)


def number(rng: Random, most_digits: int = 5) -> int:
    """Draw a number whose count of digits is uniform in 1 to most_digits."""
    digits = rng.randint(1, most_digits)
    return rng.randint(10 ** (digits - 1) if digits > 1 else 1, 10**digits - 1)


def _pick(name: str) -> Callable[[Random], str]:
    """Draws from a section of tables/words.txt."""
    return lambda rng: _draw_from(word_list(name), rng)


def _draw_from(pool: tuple[str, ...], rng: Random) -> str:
    return pool[int(rng.random() * len(pool))]


@cache
def _verbs() -> Mapping[str, tuple[str, str]]:
    rows = (row.split() for row in word_list("verb forms"))
    return {base: (past, gerund) for base, past, gerund in rows}


def verb_forms(base: str) -> tuple[str, str]:
    """Past tense and gerund of a value of kind `verb`."""
    return _verbs()[base]


def _letters(rng: Random, count: int, alphabet: str = _LETTERS) -> str:
    return "".join(rng.choices(alphabet, k=count))


def surname(rng: Random) -> str:
    """A made-up family or place name."""
    middle = draw_word("middles", rng) if rng.random() < 0.45 else ""
    return draw_word("starts", rng) + middle + draw_word("ends", rng)


def spelled_name(rng: Random) -> str:
    """A name of syllables of any sort: it can only be copied letter by letter."""
    count = rng.choice((2, 2, 3, 3, 4))
    parts = [rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(count)]
    return "".join(parts)[rng.choice((0, 0, 0, 1)) :].capitalize()


_ONSETS = (
    "", *"bcdfghjklmnpqrstvwyz", "br", "ch", "dr", "gr", "kh", "kw", "ng", "sh", "sz", "th", "tr",
)  # fmt: skip
_VOWELS = (*"aaeeiioouuy", "ai", "ei", "ia", "ie", "io", "oo", "ou", "ua")
_CODAS = (*[""] * 12, *"dgklmnrstxz", "ck", "ld", "nd", "ng", "ph", "rt", "ss", "tch")


def person(rng: Random) -> str:
    """A first name and a family name, now and then with a title or a middle initial."""
    luck = rng.random()
    first, last = draw_word("first names", rng), surname(rng)
    if luck < 0.12:
        return f"{draw_word('titles', rng)} {first} {last}"
    if luck < 0.2:
        return f"{draw_word('titles', rng)} {last}"
    if luck < 0.26:
        return f"{first} {rng.choice(_LETTERS)}. {last}"
    return f"{first} {last}"


def place(rng: Random) -> str:
    """A made-up town."""
    name, luck = surname(rng), rng.random()
    if luck < 0.1:
        return f"{rng.choice(('Port', 'New', 'Upper', 'Lower', 'North', 'South', 'Saint'))} {name}"
    return name


def made_up(rng: Random) -> str:
    """A made-up word or brand."""
    return (
        draw_word("starts", rng)
        + "".join(rng.choices(word_list("middles"), k=rng.randint(1, 2)))
        + (rng.choice(("x", "n", "ra", "vo", "tis", "mo", "la", "dex", "on", "ix", "um", "a")))
    )


def make(rng: Random) -> str:
    """A brand, now and then with a number."""
    return f"{made_up(rng)} {rng.randint(2, 99)}" if rng.random() < 0.5 else made_up(rng)


def counted_unit(value: str) -> str:
    """The unit in which a value counts ("days" of "12 days"), or nothing."""
    unit = value.partition(" ")[2]
    is_known = any(unit in word_list(name) for name in ("time units", "units", "currencies"))
    return unit if is_known else ""


def organisation(rng: Random) -> str:
    """A named body, with its article."""
    body = draw_word("bodies", rng).title()
    return rng.choice((f"the {surname(rng)} {body}", f"{surname(rng)} {body}"))


def code(rng: Random) -> str:
    """A short identifier of mixed shape."""
    shape = rng.randrange(9)
    two, four = _letters(rng, 2), _letters(rng, rng.randint(3, 4), _DIGITS)
    return (
        f"{two}-{four}", f"{two}{four}", f"{_letters(rng, 3)}-{_letters(rng, 2, _DIGITS)}",
        f"{four}-{two}", f"{two}-{four}-{_letters(rng, 1)}", f"{_letters(rng, 1)}{four}",
        f"{_letters(rng, rng.randint(4, 8), _LETTERS + _DIGITS)}",
        f"{two}/{_letters(rng, 2, _DIGITS)}/{four}",
        f"{_letters(rng, 3)}_{four}",
    )[shape]  # fmt: skip


def uuid(rng: Random) -> str:
    """A UUID in its usual form."""
    return "-".join(_letters(rng, count, _HEX) for count in (8, 4, 4, 4, 12))


def integer(rng: Random) -> str:
    """A whole number, with or without thousands separators."""
    value = number(rng)
    return f"{value:,}" if rng.random() < 0.4 else str(value)


def count(rng: Random) -> str:
    """How many: mostly small, in digits or words."""
    if rng.random() < 0.25:
        return draw_word("small numbers", rng)
    return f"{number(rng, 4):,}" if rng.random() < 0.5 else str(number(rng, 3))


def money(rng: Random) -> str:
    """An amount with its currency."""
    amount = number(rng, 6)
    text = f"{amount:,}" if rng.random() < 0.6 else str(amount)
    if rng.random() < 0.25:
        text += f".{rng.randint(0, 99):02d}"
    if rng.random() < 0.4:
        return rng.choice("$€£") + text
    if rng.random() < 0.15:
        return f"{text} {rng.choice(('million', 'thousand'))} {draw_word('currencies', rng)}"
    return f"{text} {draw_word('currencies', rng)}"


def date(rng: Random) -> str:
    """A day in one of several notations, with or without its year."""
    day, month, year = rng.randint(1, 28), draw_word("months", rng), rng.randint(1780, 2049)
    number_of_month = word_list("months").index(month) + 1
    return rng.choice((
        f"{day} {month} {year}", f"{month} {day}, {year}", f"{day} {month}", f"{month} {day}",
        f"{year}-{number_of_month:02d}-{day:02d}", f"{day:02d}/{number_of_month:02d}/{year}",
        f"{month} {year}", f"the {ordinal(day)} of {month}",
    ))  # fmt: skip


def ordinal(value: int) -> str:
    """1st, 2nd, 3rd and so on."""
    tail = (
        "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    )
    return f"{value}{tail}"


def clock(rng: Random) -> str:
    """A time of day in one of several notations."""
    hour, minute = rng.randint(0, 23), rng.choice((0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55))
    short = (hour - 1) % 12 + 1
    half = "pm" if hour >= 12 else "am"
    word = rng.choice(word_list("small numbers")[:11])
    return rng.choice((
        f"{hour:02d}:{minute:02d}", f"{hour:02d}:{minute:02d}", f"{short}.{minute:02d} {half}",
        f"{short}:{minute:02d} {half}", f"{short} {half}", f"half past {word}",
        f"quarter to {word}", f"{word} o'clock", f"{hour:02d}.{minute:02d}",
    ))  # fmt: skip


def duration(rng: Random) -> str:
    """A length of time."""
    amount = draw_word("small numbers", rng) if rng.random() < 0.35 else str(number(rng, 2) + 1)
    text = f"{amount} {draw_word('time units', rng)}"
    if rng.random() < 0.06:
        return rng.choice(("half an hour", "a fortnight", "a week", "one month", "one hour",
                           "an hour and a half", "half a day", "one year"))  # fmt: skip
    return text


def measure(rng: Random) -> str:
    """A number with a unit."""
    amount = number(rng, 4)
    text = f"{amount}.{rng.randint(0, 9)}" if rng.random() < 0.3 else f"{amount:,}"
    return f"{text} {draw_word('units', rng)}"


def percent(rng: Random) -> str:
    """A share of a hundred."""
    amount = str(rng.randint(1, 99)) + (f".{rng.randint(1, 9)}" if rng.random() < 0.3 else "")
    return amount + rng.choice((" percent", " per cent", "%", "%"))


def phone(rng: Random) -> str:
    """A telephone number or an extension."""
    digits = _letters(rng, 10, _DIGITS)
    return rng.choice((
        f"extension {digits[:4]}", f"ext. {digits[:3]}", digits[:4], f"{digits[:3]}-{digits[3:7]}",
        f"+{digits[:2]} {digits[2:5]} {digits[5:]}", f"0{digits[:3]} {digits[3:9]}",
    ))  # fmt: skip


def room(rng: Random) -> str:
    """Where in a building."""
    value = rng.randint(1, 499)
    return rng.choice((
        f"room {value}", f"Room {_letters(rng, 1)}{value}", f"Room {value}",
        f"cabinet {rng.randint(1, 60)}", f"shelf {_letters(rng, 1)}{rng.randint(1, 40)}",
        f"the {ordinal(rng.randint(1, 12))} floor", f"locker {value}", f"bay {rng.randint(1, 40)}",
        f"Building {_letters(rng, 1)}", f"hall {rng.randint(1, 30)}", f"desk {value}",
    ))  # fmt: skip


def spot(rng: Random) -> str:
    """A place described in words."""
    near = rng.choice(("behind", "beside", "next to", "opposite", "above", "under", "near", "in"))
    return f"{near} the {_noun(rng, word_list('sites'))}"


def email(rng: Random) -> str:
    """An electronic address."""
    name = rng.choice((draw_word("first names", rng).lower(), draw_word("code nouns", rng),
                       surname(rng).lower()))  # fmt: skip
    return f"{name}@{surname(rng).lower()}.{rng.choice(('com', 'org', 'net', 'example'))}"


def url(rng: Random) -> str:
    """A web address."""
    path = "/".join(rng.choices(word_list("code nouns"), k=rng.randint(1, 3)))
    return f"https://{surname(rng).lower()}.{rng.choice(('com', 'org', 'net', 'io'))}/{path}"


def phrase(rng: Random) -> str:
    """A thing described in words."""
    noun = _noun(rng, word_list("things"))
    article = "an" if noun[0] in "aeio" else "a"
    return f"{rng.choice((article, 'the', 'one', 'two'))} {noun}"


def damaged(rng: Random) -> str:
    """A thing with something wrong about it."""
    thing, part = draw_word("things", rng), draw_word("parts", rng)
    article = "an" if thing[0] in "aeiou" else "a"
    return rng.choice(
        (
            f"{article} {thing} with a {draw_word('defects', rng)} {part}",
            f"{article} {thing} without {part}",
            f"{article} {thing} whose {part} is {draw_word('defects', rng)}",
            f"a {draw_word('defects', rng)} {thing}",
        )
    )


def word_pair(rng: Random) -> str:
    """Two common words."""
    return f"{draw_word('common', rng)} {draw_word('common', rng)}"


def hyphenated(rng: Random) -> str:
    """Two or three words joined by hyphens."""
    return "-".join(
        rng.choices(word_list("common") + word_list("adjectives"), k=rng.choice((2, 2, 3)))
    )


def title(rng: Random) -> str:
    """The title of a work."""
    noun = rng.choice(word_list("things") + word_list("common") + word_list("animals")).title()
    return rng.choice((
        f"The {draw_word('adjectives', rng).title()} {noun}", f"A {noun} in {place(rng)}",
        f"{noun} and {draw_word('common', rng).title()}", f"The {noun} of {place(rng)}",
    ))  # fmt: skip


def version(rng: Random) -> str:
    """A version number."""
    parts = [str(rng.randint(0, 30)) for _ in range(rng.choice((2, 3, 3)))]
    return rng.choice(("", "", "v")) + ".".join(parts)


def pass_phrase(rng: Random, num_words: int) -> str:
    """A row of unrelated common words."""
    return " ".join(
        rng.choices(
            word_list("common") + word_list("animals")[:20] + word_list("adjectives"), k=num_words
        )
    )


def _noun(rng: Random, pool: tuple[str, ...]) -> str:
    noun = rng.choice(pool)
    return f"{draw_word('adjectives', rng)} {noun}" if rng.random() < 0.6 else noun


_NAMES: dict[str, Callable[[Random], str]] = {
    "person": person, "place": place, "org": organisation, "brand": made_up,
}  # fmt: skip
_MAKERS: dict[str, Callable[[Random], str]] = {
    "int": integer, "count": count, "money": money, "date": date, "time": clock, "phrase": phrase,
    "duration": duration, "measure": measure, "percent": percent, "phone": phone, "room": room,
    "spot": spot, "email": email, "url": url, "code": code, "uuid": uuid, "pair": word_pair,
    "hyphen": hyphenated, "title": title, "version": version,
    "hash": lambda rng: _letters(rng, rng.choice((12, 16, 32, 40)), _HEX),
    "pin": lambda rng: _letters(rng, rng.randint(3, 12), _DIGITS),
    "digits12": lambda rng: _letters(rng, 12, _DIGITS),
    "year": lambda rng: str(rng.randint(1500, 2060)),
    "weekday": _pick("weekdays"), "month": _pick("months"), "colour": _pick("colours"),
    "material": _pick("materials"), "animal": _pick("animals"), "food": _pick("foods"),
    "trade": _pick("trades"), "language": _pick("languages"), "word": _pick("common"),
    "instrument": _pick("instruments"), "subject": _pick("subjects"),
    "cause": _pick("causes"), "good": _pick("goods"), "thing": _pick("things"),
    "damaged": damaged, "rolename": _pick("roles"), "occasion": _pick("occasions"),
    "digits": lambda rng: _letters(rng, rng.randint(3, 5), _DIGITS),
    "verb": lambda rng: _draw_from(tuple(_verbs()), rng),
    "incident": _pick("incidents"), "purchase": _pick("purchases"),
    "role": lambda rng: f"the {draw_word('roles', rng)}",
    "unitless": lambda rng: str(number(rng, 3)),
    "snake": lambda rng: f"{draw_word('code nouns', rng)}_{draw_word('code tails', rng)}",
    "heat": lambda rng: f"{rng.randint(2, 900)} {rng.choice(('degrees', '°C', '°F'))}",
    "stuff": _pick("stuffs"), "make": make,
    "bool": lambda rng: _draw_from(_SWITCHES, rng),
}  # fmt: skip
VALUE_KINDS = frozenset(_NAMES) | frozenset(_MAKERS)
