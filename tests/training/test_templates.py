"""The language of the tables: sections, templates, words and records are read as written."""

from random import Random

import pytest

from training.data import templates
from training.data.templates import (
    expand,
    parse_fact_record,
    parse_record,
    read_records,
    slots_of,
    template_lists,
    word_lists,
)

RECORD = """
X part: drain plug | hub nut | cover screw
K part
S tighten the {part} to {tq:measure} [crosswise|in two passes]
S no more than {tq} for the {part}
Q How hard do I screw in the {part}?=tq
Q What takes so much force?=the {part}
N What size of wrench fits the {part}?
""".strip()


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes a table."""
    monkeypatch.setattr(templates, "FOLDER", tmp_path)
    template_lists.cache_clear()
    word_lists.cache_clear()
    yield lambda text: (tmp_path / "table.txt").write_text(text, encoding="utf-8")
    template_lists.cache_clear()
    word_lists.cache_clear()


def test_templates_keep_their_blanks_and_breaks_and_go_on_in_the_next_line(table):
    heads = "= heads\nNote that␣\n\n# no comment\n[]\n"
    table(f"# About it.\n# More.\n\n{heads}= code\nif {{k}}:\\n    [a|\n  b]\n")
    assert template_lists("table") == {
        "heads": ("Note that ", "# no comment", "[]"),
        "code": ("if {k}:\n    [a|b]",),
    }


def test_words_are_separated_by_commas_over_several_lines(table):
    table("= colours\namber, dark blue,\ngold\n= one\nx\n")
    assert word_lists("table") == {"colours": ("amber", "dark blue", "gold"), "one": ("x",)}


def test_a_section_that_is_there_twice_is_refused(table):
    table("= one\na\n= one\nb\n")
    with pytest.raises(ValueError, match="two sections 'one'"):
        template_lists("table")


def test_records_are_separated_by_empty_lines(table):
    table("# About them.\n\nS a\nQ b?=c\n\nS d\n")
    assert list(read_records("table")) == [[("S", "a"), ("Q", "b?=c")], [("S", "d")]]


@pytest.mark.parametrize("line", ["what is this", "S", "SS two", "s small"])
def test_a_line_without_a_tag_or_text_is_refused(line):
    with pytest.raises(ValueError, match="no field of a record"):
        parse_record(line)


def test_a_choice_is_made_and_every_slot_is_filled():
    made = {
        expand("the {A} [of|for] {E}[|!]", Random(n), {"A": "age", "E": "it"}) for n in range(40)
    }
    assert made == {"the age of it", "the age for it", "the age of it!", "the age for it!"}
    assert expand("[]", Random(0), {}) == ""
    assert slots_of("the {A} [of|for] {E}") == {"A", "E"}
    with pytest.raises(KeyError):
        expand("the {A} of {E}", Random(0), {"A": "age"})


def test_a_fact_record_is_read_as_it_is_written():
    record = parse_fact_record(parse_record(RECORD))
    assert record.key == "part"
    assert record.statements[0] == "tighten the {part} to {tq} [crosswise|in two passes]"
    assert record.kinds == {"tq": "measure"}
    assert record.options == {"part": ("drain plug", "hub nut", "cover screw")}
    assert record.questions[0] == ("How hard do I screw in the {part}?", "{tq}")
    assert record.questions[1] == ("What takes so much force?", "the {part}")
    assert record.unanswerable == ("What size of wrench fits the {part}?",)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("Y what is this", "no tags of a fact: Y"),
        ("S a {thing}", "unknown slot"),
        ("S {tq:measure} for the plug", "no key"),
        ("S {part} at {tq:heat}", "two kinds"),
        ("S {part:thing} at {tq}", "declared twice"),
        ("Q Who tightens it?=nobody", "unknown slot"),
        ("Q How hard is the {part} tightened?=part", "gives its answer away"),
        ("X nut: one", "one option"),
    ],
)
def test_a_faulty_fact_record_is_refused(line, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse_fact_record(parse_record(f"{RECORD}\n{line}"))


def test_a_verb_has_its_forms():
    text = "S {v:verb} it; {v_ing} {n:count} means that they are {v_ed}\nQ How many are {v_ed}?=n"
    assert parse_fact_record(parse_record(text)).kinds == {"v": "verb", "n": "count"}
