"""Haystacks made by program: handbooks, specifications, minutes, logs, code, tables, letters."""

# ruff: noqa: E501  (one wording a line, however long)

from collections.abc import Callable
from random import Random

from training.data import values, words
from training.data.entities import draw_entity
from training.data.lines import config_block
from training.data.template import capitalise, expand

_HANDBOOK = (
    "[Everyone|Each member of staff|The person on duty] [should|must|is asked to] [read|follow|keep] the rules for {svc} before using {obj}",
    "{who} [explains|repeats|updates] this section whenever {ev} comes round",
    "If {obj} fails, do not try to [repair|move|open] it; [tell|inform|call] {who} instead",
    "Please leave {site} as you would like to find it",
    "The purpose of {svc} is to [protect|support|inform] those who [work in|depend on|visit] {site}",
    "Exceptions are [rare|possible|not foreseen] and must be [explained|put in writing|agreed beforehand]",
    "A copy of this page hangs {sp}",
    "{svc} does not replace [common sense|good judgement|the advice of a colleague]",
    "Whoever [works|stays|travels] in {site} for the first time is shown around by {who}",
    "[Most|Many|Some] questions about {svc} can be answered by {who}",
    "Keep [doors|windows|drawers|notes] [closed|locked|tidy] when you leave {site}",
    "The {adj} {thing} and the {adj2} {thing2} belong together and should not be [separated|lent|moved]",
    "Before {ev}, check that {obj} is [clean|complete|switched off|in its place]",
    "In {month}, {who} goes through the [list|inventory|records] with the {body}",
    "This chapter [describes|sums up|explains] how {svc} works and what it is meant for",
    "[Nobody|No one] is expected to carry {obj} alone",
    "When in doubt, [ask|wait for|write to] {who}",
    "Experience shows that {svc} works best if it is [planned early|kept short|done in pairs]",
    "The {body} thanks all who helped with {ev}",
    "Old versions of this text are [no longer valid|kept in the archive|available on request]",
    "A [short|friendly|written] note to {who} is enough; no form is needed",
    "{svc} was introduced after {ev} and has been [useful|popular|changed twice] since",
    "It is forbidden to [smoke|eat|sleep|park] in {site}, with no exceptions",
    "We [review|discuss|adapt] the rules for {svc} together with the {body}",
    "Costs of {n} {cur} or more for {obj} are [rare|unusual|discussed with the team]",
    "On {date}, the {body} [opened|repainted|inspected] {site}",
    "{p} wrote the first draft of this section in {year}",
    "About {n} {goods} were [counted|lost|replaced] during {ev}",
)
_SPECIFICATION = (
    "The {k} [MUST|SHOULD|MAY] [accept|reject|forward] a {k2} [when|unless] the {k3} is [empty|full|stale]",
    "A {k} holds [exactly|at least|at most] {n} {k2} entries",
    "Implementations [MUST NOT|SHOULD NOT] rely on the order of {k} entries",
    "Each {k} is [identified|described] by its {k2}",
    "If the {k} is missing, the {k2} [returns|raises|logs] an error",
    "The `{k}` field is [optional|required|reserved]",
    "Clients [retry|wait|give up] when the {k} [closes|changes|expires]",
    "This section [defines|describes] the {k} and its {k2}",
    "See also the notes on `{k}_{k2}`",
    "Since version {v} the {k} is [deprecated|stable|experimental]",
    "A change of the {k} [invalidates|keeps|renews] the {k2}",
)
_LOG = (
    "{date} {time} INFO {k}: {k2} [started|finished|renewed] in {n} ms",
    "{date} {time} WARN {k}: {k2} is slow, {n} waiting",
    "{date} {time} ERROR {k}: cannot open {k2} (code {n})",
    "{date} {time} DEBUG {k}: {k2}={n} {k3}={code}",
)
_CODE = (
    "def {k}_{k2}({k3}):\n    return {k3}.{k2}({n})",
    "class {K}{K2}:\n    {k3} = {n}",
    "for {k} in {k2}s:\n    {k3}.append({k})",
    'if {k}.{k2} > {n}:\n    raise {K}Error("{k2} too large")',
    "{k} = {k2}({n}, {k3}=None)",
    "# {k} before {k2}, because the {k3} may be empty",
    "try:\n    {k}.{k2}()\nexcept {K}Error:\n    {k3} = {n}",
    "function {k}({k2}) {\n  return {k2} + {n};\n}".replace("{\n", "OPEN\n").replace(
        "\n}", "\nSHUT"
    ),
)
_HEADINGS = (
    "About {svc}", "{svc}", "Rules for {site}", "{obj}", "Duties of {who}", "After {ev}",
    "Working with {obj}", "The {body}", "How {svc} works", "General remarks", "Contacts", "Safety",
)  # fmt: skip


def handbook(rng: Random) -> str:
    """A chapter of an invented handbook in Markdown or plain text."""
    mark = rng.choice(("## ", "# ", "### ", "", "{n}. "))
    lines = []
    for number in range(rng.randint(3, 9)):
        heading = capitalise(expand(rng.choice(_HEADINGS), rng, _slots(rng)))
        lines.append(mark.replace("{n}", f"{number + 1}") + heading)
        lines.extend(_paragraph(_HANDBOOK, rng) for _ in range(rng.randint(1, 4)))
    return "\n\n".join(lines) + "\n\n"


def specification(rng: Random) -> str:
    """A chapter of an invented technical specification."""
    lines = []
    for number in range(rng.randint(3, 8)):
        slots = _slots(rng)
        lines.append(f"## {number + 1}.{rng.randint(1, 9)} {slots['k'].title()} {slots['k2']}")
        lines.extend(_paragraph(_SPECIFICATION, rng) for _ in range(rng.randint(1, 3)))
        if rng.random() < 0.4:
            lines.append("\n".join("- " + _sentence(_SPECIFICATION, rng) for _ in range(4)))
    return "\n\n".join(lines) + "\n\n"


def minutes(rng: Random) -> str:
    """Minutes of a meeting: a speaker a line."""
    speakers = [values.person(rng) for _ in range(rng.randint(2, 5))]
    lines = [
        f"{rng.choice(speakers)}: {_paragraph(_HANDBOOK, rng)}" for _ in range(rng.randint(6, 16))
    ]
    return "\n".join(lines) + "\n\n"


def log(rng: Random) -> str:
    """Lines of a log file."""
    return "\n".join(_line(_LOG, rng) for _ in range(rng.randint(10, 40))) + "\n"


def source_code(rng: Random) -> str:
    """Lines of a program."""
    text = "\n\n".join(_line(_CODE, rng) for _ in range(rng.randint(6, 20))) + "\n\n"
    return text.replace("OPEN", "{").replace("SHUT", "}")


def configuration(rng: Random) -> str:
    """Blocks of configuration lines."""
    return "\n".join(config_block(rng).text for _ in range(rng.randint(2, 5))) + "\n"


def table(rng: Random) -> str:
    """A heading and a Markdown table of invented goods."""
    kinds = rng.sample(("code", "money", "count", "person", "date", "place", "measure", "room"), 3)
    head = ["item", *kinds]
    rows = [
        [f"{rng.choice(words.ADJECTIVES)} {rng.choice(words.THINGS)}"]
        + [values.draw(kind, rng) for kind in kinds]
        for _ in range(rng.randint(4, 16))
    ]
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * 4, *rows)]
    title = capitalise(expand(rng.choice(_HEADINGS), rng, _slots(rng)))
    return f"## {title}\n\n" + "\n".join(lines) + "\n\n"


def letters(rng: Random) -> str:
    """A letter: who writes, when, to whom, and what about."""
    sender, reader = values.person(rng), values.person(rng)
    body = "\n\n".join(_paragraph(_HANDBOOK, rng) for _ in range(rng.randint(1, 4)))
    subject = expand(rng.choice(_HEADINGS), rng, _slots(rng))
    greeting = rng.choice(("Dear", "Good morning,", "To", "My dear"))
    return (
        f"{values.place(rng)}, {values.date(rng)}\nSubject: {subject}\n\n{greeting} {reader},\n\n"
        f"{body}\n\n{rng.choice(('Yours', 'Kind regards', 'Sincerely'))},\n{sender}\n\n"
    )


def _sentence(templates: tuple[str, ...], rng: Random) -> str:
    return capitalise(expand(rng.choice(templates), rng, _slots(rng))) + "."


def _line(templates: tuple[str, ...], rng: Random) -> str:
    return expand(rng.choice(templates), rng, _slots(rng))


def _paragraph(templates: tuple[str, ...], rng: Random) -> str:
    return " ".join(_sentence(templates, rng) for _ in range(rng.randint(2, 7)))


def _slots(rng: Random) -> dict[str, str]:
    first, second, third = rng.sample(words.CODE_NOUNS, 3)
    return {
        "svc": draw_entity("service", rng, held_out=False).name,
        "obj": draw_entity("thing", rng, held_out=False).name,
        "site": draw_entity("site", rng, held_out=False).name,
        "ev": draw_entity("project", rng, held_out=False).name,
        "who": values.draw("role", rng), "sp": values.spot(rng), "p": values.person(rng),
        "adj": rng.choice(words.ADJECTIVES), "adj2": rng.choice(words.ADJECTIVES),
        "thing": rng.choice(words.THINGS), "thing2": rng.choice(words.THINGS),
        "body": rng.choice(words.BODIES), "goods": rng.choice(words.GOODS),
        "month": rng.choice(words.MONTHS), "year": str(rng.randint(1900, 2040)),
        "n": str(values.number(rng, 4)), "cur": rng.choice(words.CURRENCIES),
        "date": values.date(rng), "time": values.clock(rng), "v": values.version(rng),
        "code": values.code(rng), "k": first, "k2": second, "k3": third,
        "K": first.title(), "K2": second.title(),
    }  # fmt: skip


GENRES: dict[str, Callable[[Random], str]] = {
    "handbook": handbook,
    "specification": specification,
    "minutes": minutes,
    "log": log,
    "source code": source_code,
    "configuration": configuration,
    "table": table,
    "letters": letters,
}
