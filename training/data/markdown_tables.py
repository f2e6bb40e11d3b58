"""Needles of tables: subjects in rows, attributes in columns."""

from random import Random

from training.data import values
from training.data.attributes import Attribute
from training.data.entities import Entity, draw_entity
from training.data.facts import Chunk, Fact, Needle, ask, claim, clash, draw_attribute, draw_kind
from training.data.phrasing import StyleConfig
from training.data.split import draw_until


def make_table(rng: Random, style: StyleConfig) -> Needle:
    """A table: subjects in rows, attributes in columns."""
    kind = draw_kind(rng)
    num_rows, num_columns = rng.randint(2, 10), rng.randint(2, 4)
    columns: list[Attribute] = []
    for _ in range(num_columns):
        attribute = draw_until(
            lambda one: not any(clash(one, other) for other in columns),
            lambda: draw_attribute(kind, rng, style),
        )
        columns.append(attribute)
    names = {draw_entity(kind, rng, held_out=style.held_out).name for _ in range(num_rows)}
    facts = [
        [Fact(Entity(kind, name), column, _table_value(column, rng, style)) for column in columns]
        for name in sorted(names)
    ]
    rng.shuffle(facts)
    asked = [rng.choice(row) for row in rng.sample(facts, min(len(facts), 4))]
    questions = [ask(fact, rng, style, "table") for fact in asked]
    chunk = Chunk(_table_text(facts, rng), is_block=True)
    return Needle((chunk,), tuple(questions), claim(*names))


def _table_value(attribute: Attribute, rng: Random, style: StyleConfig) -> str:
    return values.draw(attribute.value, rng, held_out=style.held_out)


def _table_text(facts: list[list[Fact]], rng: Random) -> str:
    head = ["name", *(rng.choice(fact.attribute.names) for fact in facts[0])]
    rows = [[row[0].entity.name, *(fact.value for fact in row)] for row in facts]
    if rng.random() < 0.6:
        lines = ["| " + " | ".join(row) + " |" for row in [head, *rows]]
        lines.insert(1, "|" + "---|" * len(head))
    else:
        mark = rng.choice((" | ", "\t", ", ", "; "))
        lines = [mark.join(row) for row in [head, *rows]]
    return "\n".join(lines) + "\n"
