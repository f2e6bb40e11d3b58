"""Haystacks made by program: handbooks, specifications, minutes, logs, code, tables, letters."""

from collections.abc import Callable
from random import Random

from training.data import values
from training.data.assignments import draw_config_block
from training.data.entities import draw_entity
from training.data.templates import draw_word, expand, template_list, word_list
from training.data.text import capitalise


def handbook(rng: Random) -> str:
    """A chapter of a fictional handbook in Markdown or plain text."""
    mark = rng.choice(("## ", "# ", "### ", "", "{n}. "))
    lines = []
    for number in range(rng.randint(3, 9)):
        heading = capitalise(
            expand(rng.choice(template_list("prose", "headings")), rng, _slots(rng))
        )
        lines.append(mark.replace("{n}", f"{number + 1}") + heading)
        lines.extend(_paragraph("handbook", rng) for _ in range(rng.randint(1, 4)))
    return "\n\n".join(lines) + "\n\n"


def specification(rng: Random) -> str:
    """A chapter of a fictional technical specification."""
    lines = []
    for number in range(rng.randint(3, 8)):
        slots = _slots(rng)
        lines.append(f"## {number + 1}.{rng.randint(1, 9)} {slots['k'].title()} {slots['k2']}")
        lines.extend(_paragraph("specification", rng) for _ in range(rng.randint(1, 3)))
        if rng.random() < 0.4:
            lines.append("\n".join("- " + _sentence("specification", rng) for _ in range(4)))
    return "\n\n".join(lines) + "\n\n"


def minutes(rng: Random) -> str:
    """Minutes of a meeting: a speaker a line."""
    speakers = [values.person(rng) for _ in range(rng.randint(2, 5))]
    lines = [
        f"{rng.choice(speakers)}: {_paragraph('handbook', rng)}" for _ in range(rng.randint(6, 16))
    ]
    return "\n".join(lines) + "\n\n"


def log(rng: Random) -> str:
    """Lines of a log file."""
    return "\n".join(_line("log", rng) for _ in range(rng.randint(10, 40))) + "\n"


def source_code(rng: Random) -> str:
    """Lines of a program."""
    return "\n\n".join(_line("source code", rng) for _ in range(rng.randint(6, 20))) + "\n\n"


def configuration(rng: Random) -> str:
    """Blocks of configuration lines."""
    return "\n".join(draw_config_block(rng).text for _ in range(rng.randint(2, 5))) + "\n"


def table(rng: Random) -> str:
    """A heading and a Markdown table of fictional goods."""
    kinds = rng.sample(("code", "money", "count", "person", "date", "place", "measure", "room"), 3)
    head = ["item", *kinds]
    rows = [
        [f"{draw_word('adjectives', rng)} {draw_word('things', rng)}"]
        + [values.draw(kind, rng) for kind in kinds]
        for _ in range(rng.randint(4, 16))
    ]
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * 4, *rows)]
    title = capitalise(expand(rng.choice(template_list("prose", "headings")), rng, _slots(rng)))
    return f"## {title}\n\n" + "\n".join(lines) + "\n\n"


def letters(rng: Random) -> str:
    """A letter: who writes, when, to whom, and what about."""
    sender, reader = values.person(rng), values.person(rng)
    body = "\n\n".join(_paragraph("handbook", rng) for _ in range(rng.randint(1, 4)))
    subject = expand(rng.choice(template_list("prose", "headings")), rng, _slots(rng))
    greeting = rng.choice(("Dear", "Good morning,", "To", "My dear"))
    return (
        f"{values.place(rng)}, {values.date(rng)}\nSubject: {subject}\n\n{greeting} {reader},\n\n"
        f"{body}\n\n{rng.choice(('Yours', 'Kind regards', 'Sincerely'))},\n{sender}\n\n"
    )


def _sentence(section: str, rng: Random) -> str:
    return capitalise(expand(rng.choice(template_list("prose", section)), rng, _slots(rng))) + "."


def _line(section: str, rng: Random) -> str:
    return expand(rng.choice(template_list("prose", section)), rng, _slots(rng))


def _paragraph(section: str, rng: Random) -> str:
    return " ".join(_sentence(section, rng) for _ in range(rng.randint(2, 7)))


def _slots(rng: Random) -> dict[str, str]:
    first, second, third = rng.sample(word_list("code nouns"), 3)
    return {
        "svc": draw_entity("service", rng, held_out=False).name,
        "obj": draw_entity("thing", rng, held_out=False).name,
        "site": draw_entity("site", rng, held_out=False).name,
        "ev": draw_entity("project", rng, held_out=False).name,
        "who": values.draw("role", rng), "sp": values.spot(rng), "p": values.person(rng),
        "adj": draw_word("adjectives", rng), "adj2": draw_word("adjectives", rng),
        "thing": draw_word("things", rng), "thing2": draw_word("things", rng),
        "body": draw_word("bodies", rng), "goods": draw_word("goods", rng),
        "month": draw_word("months", rng), "year": str(rng.randint(1900, 2040)),
        "n": str(values.number(rng, 4)), "cur": draw_word("currencies", rng),
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
