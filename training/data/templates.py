"""The one language of all tables: templates, lists of them, word lists and records; and its reader.

A table is a UTF-8 text file in `tables/`. Lines at its top that begin with `#` are comments. A line
`= name` opens a section. What stands in a section is one of three things.

**Templates**, one a line, each as likely as the others:

    = questions
    What is the {A} of {E}?
    Where [can one find|is] {E}[| kept]?

`{name}` is a slot: what stands there is filled in. `[a|b]` is a choice between options, of which
one may be empty; an option or a line that is written twice has twice the weight. `[]` is the empty
template. `␣` is a blank at the edge of a line, where a plain one would be cut off, and `\\n` a line
break. In a grammar (productions.txt), `<name>` stands for any template of that section. A line that
begins with two blanks goes on with the line before it, as if there were no break.

**Words**, separated by commas, over as many lines as they need:

    = colours
    amber, beige, dark blue,
    emerald, gold

**Records**, separated by empty lines. Each of a record's lines is a field: a tag, a blank, a text.

    X part: drain plug | hub nut | cover screw
    K part
    S tighten the {part} to {torque:measure} [crosswise|in two passes]
    S no more than {torque} for the {part}
    Q How hard do I screw in the {part}?=torque
    Q What takes so much force?=the {part}
    N What size of wrench fits the {part}?

`S` is a statement of all or most of what the record tells; where a slot first stands, its kind
follows its name (`values.VALUE_KINDS`, `entities.ENTITY_KINDS`). `Q` is a question, and behind its
last `=` stands the slot that answers it, or a template of the answer. `N` is a question that no
statement answers. `X` names a slot whose values are the record's own. `K` names the slot that tells
one such record from another where several stand in a document. A slot of kind `verb` has two more
forms: `{v_ed}`, `{v_ing}`.

Attributes and timetables have tags of their own beside `S` and `Q`: `A` names of an attribute, `E`
kinds of entities that have it, `V` the kind of a value, `T` a name of what departs, opens or rings.
In a timetable's statements a `|` outside of brackets stands between the verb and what follows it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

FOLDER = Path(__file__).parent / "tables"
CHOICE = re.compile(r"\[([^\[\]]*)\]")
SLOT = re.compile(r"\{([A-Za-z0-9_]+)\}")
_DECLARATION = re.compile(r"\{(\w+):(\w+)\}")
_BLANK, _BREAK = "␣", "\\n"

Field = tuple[str, str]  # tag and text


@cache
def template_lists(table: str) -> Mapping[str, tuple[str, ...]]:
    """The templates of every section of `tables/<table>.txt`, by the section's name.

    Raises: FileNotFoundError, or ValueError if two sections have one name.
    """
    return {name: tuple(map(_unescape, lines)) for name, lines in _sections(table).items()}


def template_list(table: str, name: str) -> tuple[str, ...]:
    """The templates of one section.

    Raises: KeyError if the table has no such section.
    """
    return template_lists(table)[name]


@cache
def word_lists(table: str) -> Mapping[str, tuple[str, ...]]:
    """The words of every section of `tables/<table>.txt`, by the section's name.

    Raises: FileNotFoundError, or ValueError if two sections have one name.
    """
    return {name: _split_words(" ".join(lines)) for name, lines in _sections(table).items()}


def word_list(name: str) -> tuple[str, ...]:
    """The words of one section of `tables/words.txt`.

    Raises: KeyError if there is no such section.
    """
    return word_lists("words")[name]


def draw_word(name: str, rng: Random) -> str:
    """Draw from a section of `tables/words.txt`.

    Raises: KeyError if there is no such section.
    """
    return rng.choice(word_list(name))


def read_records(table: str) -> Iterator[list[Field]]:
    """The fields of every record of `tables/<table>.txt`, in order.

    Raises: FileNotFoundError, or ValueError if a line is no tag with a text.
    """
    return map(parse_record, _body(table).split("\n\n"))


def parse_record(text: str) -> list[Field]:
    """The fields of one record.

    Raises: ValueError if a line is no tag with a text.
    """
    return [_parse_field(line) for line in text.splitlines()]


def texts_of(record: Sequence[Field], tag: str) -> tuple[str, ...]:
    """The texts of the fields with one tag."""
    return tuple(text for found, text in record if found == tag)


def expand(template: str, rng: Random, slots: Mapping[str, str]) -> str:
    """Choose one option of every choice and fill every slot once.

    Raises: KeyError if a slot has no value.
    """
    if "[" not in template:
        return SLOT.sub(lambda match: slots[match.group(1)], template)
    pick = rng.random
    text = "".join(
        options[0] if len(options) == 1 else options[int(pick() * len(options))]
        for options in _parts(template)
    )
    return SLOT.sub(lambda match: slots[match.group(1)], text)


def slots_of(template: str) -> frozenset[str]:
    """Names of the slots that a template fills."""
    return frozenset(SLOT.findall(template))


def options_of(template: str) -> list[list[str]]:
    """A template's parts in order: what stands outside of choices has one option."""
    return [list(options) for options in _parts(template)]


@dataclass(frozen=True)
class FactRecord:
    """What a few sentences state, in several wordings, and what may be asked of it.

    Attributes:
        statements: templates; each states all of it or most.
        questions: (template, template of the answer).
        unanswerable: questions that no statement answers.
        kinds: kind by name of slot, without the slots of the record's own.
        options: what a slot of the record's own may be, by its name.
        key: the slot that tells one such record from another, or nothing.
    """

    statements: tuple[str, ...]
    questions: tuple[tuple[str, str], ...]
    unanswerable: tuple[str, ...]
    kinds: Mapping[str, str]
    options: Mapping[str, tuple[str, ...]]
    key: str = ""

    @property
    def slots(self) -> frozenset[str]:
        """Names of all slots, without the other forms of verbs."""
        return frozenset((*self.kinds, *self.options))


def parse_fact_record(record: Sequence[Field]) -> FactRecord:
    """Read the tags X, K, S, Q and N.

    Raises: ValueError if there is another tag, a slot has no kind or two, a statement lacks the
        key, or a question has no answer with a slot in it or names its answer.
    """
    if unknown := {tag for tag, _ in record} - set("XKSQN"):
        raise ValueError(f"no tags of a fact: {', '.join(sorted(unknown))}")
    statements, keys = texts_of(record, "S"), texts_of(record, "K")
    declared = _DECLARATION.findall("\n".join(statements))
    found = FactRecord(
        statements=tuple(_DECLARATION.sub(r"{\1}", text) for text in statements),
        questions=tuple(map(_parse_question, texts_of(record, "Q"))),
        unanswerable=texts_of(record, "N"),
        kinds=dict(declared),
        options=dict(map(_parse_options, texts_of(record, "X"))),
        key=keys[0] if keys else "",
    )
    if problems := [*_problems_of_slots(found, declared), *_problems_of_questions(found)]:
        raise ValueError("; ".join(problems))
    return found


def _problems_of_slots(record: FactRecord, declared: Sequence[tuple[str, str]]) -> list[str]:
    asked = [text for pair in record.questions for text in pair]
    texts = (*record.statements, *record.unanswerable, *asked)
    forms = {
        f"{name}_{form}" for name, kind in declared if kind == "verb" for form in ("ed", "ing")
    }
    known, key = record.slots | forms, frozenset({record.key} - {""})
    return [
        *(["no statement"] if not record.statements else []),
        *(f"{name} has two kinds" for name, kind in declared if record.kinds[name] != kind),
        *(f"{name} is declared twice" for name in record.kinds if name in record.options),
        *(f"{name} has one option" for name, many in record.options.items() if len(many) < 2),
        *(f"unknown slot in {text!r}" for text in texts if slots_of(text) - known),
        *(f"no key in {text!r}" for text in record.statements if not key <= slots_of(text)),
    ]


def _problems_of_questions(record: FactRecord) -> list[str]:
    pairs = [(text, slots_of(text), slots_of(answer)) for text, answer in record.questions]
    return [
        *(f"no slot answers {text!r}" for text, _, answer in pairs if not answer),
        *(f"{text!r} gives its answer away" for text, asked, answer in pairs if asked & answer),
    ]


def _parse_question(text: str) -> tuple[str, str]:
    question, _, answer = text.rpartition("=")
    return question.strip(), answer if "{" in answer else f"{{{answer}}}"


def _parse_options(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, options = text.partition(":")
    return name.strip(), tuple(option.strip() for option in options.split("|"))


def _parse_field(line: str) -> Field:
    tag, _, text = line.partition(" ")
    if not (tag.isupper() and len(tag) == 1 and text.strip()):
        raise ValueError(f"no field of a record: {line!r}")
    return tag, text.strip()


def _sections(table: str) -> dict[str, list[str]]:
    """The lines of every section, those that go on joined to the ones before them."""
    sections: dict[str, list[str]] = {}
    name = ""
    for line in _body(table).splitlines():
        if line.startswith("= "):
            name = line.removeprefix("= ")
            if name in sections:
                raise ValueError(f"the table '{table}' has two sections '{name}'")
            sections[name] = []
        elif line.startswith("  "):
            sections[name][-1] += line.removeprefix("  ").replace(_BLANK, " ")
        elif line:
            sections[name].append(line.replace(_BLANK, " "))
    return sections


def _body(table: str) -> str:
    """A table without its comments."""
    lines = (FOLDER / f"{table}.txt").read_text(encoding="utf-8").splitlines()
    while lines and lines[0].startswith("#"):
        del lines[0]
    return "\n".join(lines).strip("\n")


def _unescape(template: str) -> str:
    return template.replace(_BREAK, "\n")


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


@cache
def _parts(template: str) -> tuple[tuple[str, ...], ...]:
    pieces = CHOICE.split(template)  # text, choice, text, choice, ...
    return tuple(
        tuple(piece.split("|")) if place % 2 else (piece,) for place, piece in enumerate(pieces)
    )
