"""The examination: scoring, intervals, documents of the asked length, a table that grows."""

import json
from dataclasses import replace
from random import Random

import pytest

from common.errors import InvalidInput
from tests.training.material import TEXT, TOKENIZER, write_data, write_weights
from training.cells import PARAGRAPH, cells
from training.data.documents import Sources
from training.data.facts import Question
from training.data.feed import vocabulary_of
from training.data.haystack import BoundaryTable
from training.data.natural import load_squad
from training.evaluate import choose_device, evaluate
from training.examiner import Examiner, Natural, shipped
from training.model import ArtifactBuilder
from training.prepare import tokenize_all
from training.scoring import mark, names_all, normalise, overlap, row_of, wilson
from training.shape import TINY
from training.tasks import Plan, shipped_folders


@pytest.fixture(scope="module")
def examiner():
    table = BoundaryTable(vocabulary_of(TOKENIZER))
    haystack = table.haystack("minutes", tokenize_all(TOKENIZER, {"minutes": TEXT})["minutes"])
    return Examiner(ArtifactBuilder(TINY), TOKENIZER, Sources([haystack], [1.0], []))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp("weights"))


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: cell.name)
def test_documents_have_the_length_and_hold_the_answers(examiner, cell):
    sheet = examiner.planted(cell, 8000, Random(2))
    assert len(sheet.questions) == 20
    tokens = len(TOKENIZER.encode(sheet.text, add_special_tokens=False).ids)
    assert tokens == pytest.approx(8000, rel=0.15)
    if cell.kinds[0] not in ("unanswerable", "list", "two keys", "three keys"):
        assert all(one.answer.lower() in sheet.text.lower() for one in sheet.questions)


def test_a_paragraph_alone_and_its_article_never_come_from_training(data):
    natural = Natural(data / "squad" / "train-v1.1.json.gz")
    trained = {one.title for one in load_squad(natural.file, held_out=False)}
    assert {one.title for one in natural.articles}.isdisjoint(trained)
    assert len(natural.paragraph(Random(1)).questions) == 4
    article = natural.article(Random(1))
    assert len(article.questions) == 20
    assert article.text.count("says the story") == 3


def test_every_shipped_document_has_eight_questions():
    assert shipped_folders()
    assert all(len(shipped(folder).questions) == 8 for folder in shipped_folders())


@pytest.mark.parametrize("workers", [1, 2])
def test_an_untrained_reader_fails_and_the_table_says_so(data, weights, tmp_path, workers):
    plan = Plan(
        weights, data, "cpu", cells=("table", PARAGRAPH), questions=4, workers=workers,
        lengths=(0, 16_384) if workers == 1 else (0,),
    )  # fmt: skip
    progress = list(evaluate(plan, tmp_path / "result.json"))
    assert (progress[-1].done, progress[-1].total) == (len(progress), len(progress))
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["cells"][PARAGRAPH]["own"]["exact_match"] == 0
    assert result["cells"][PARAGRAPH]["own"]["questions"] == 4
    assert ("table" in result["cells"]) == (workers == 1)


def test_a_run_goes_on_from_the_rows_of_an_earlier_one(data, weights, tmp_path):
    plan = Plan(
        weights, data, "cpu", cells=(PARAGRAPH,), questions=4, lengths=(0,), goes_on=True
    )  # fmt: skip
    out = tmp_path / "result.json"
    assert len(list(evaluate(plan, out))) == 1
    first = json.loads(out.read_text())["cells"]
    assert list(evaluate(plan, out)) == []  # nothing is left
    more = replace(plan, cells=(PARAGRAPH, "handbook"))
    assert len(list(evaluate(more, out))) == 1
    cells = json.loads(out.read_text())["cells"]
    assert cells[PARAGRAPH] == first[PARAGRAPH]
    assert "handbook" in cells
    with pytest.raises(InvalidInput, match="another seed"):
        list(evaluate(replace(plan, seed=2), out))


def test_what_the_table_does_not_have_is_refused(data, weights, tmp_path):
    def refused(**what):
        plan = Plan(**{"weights": weights, "data": data, "device": "cpu", **what})
        with pytest.raises(InvalidInput) as error:
            list(evaluate(plan, tmp_path / "result.json"))
        return error.value.message

    assert "no cell 'singel'; it has: single, same attribute" in refused(cells=("singel",))
    assert "no length '5000'" in refused(lengths=(5000,))
    assert "None of these cells" in refused(cells=("list",), lengths=(4096,))
    assert "lacks squad/train-v1.1.json.gz, books/frankenstein.txt.gz" in refused(data=tmp_path)


def test_a_device_is_chosen_by_its_name():
    assert choose_device("cpu") == "cpu"
    assert choose_device("auto") in ("cpu", "cuda")
    with pytest.raises(InvalidInput, match="no device 'tpu'"):
        choose_device("tpu")


def test_wilson_is_the_published_interval():
    low, high = wilson(81, 263)  # Newcombe 1998, table I: 0.2553 to 0.3662
    assert (low, high) == (pytest.approx(0.2553, abs=1e-4), pytest.approx(0.3662, abs=1e-4))
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_row_gives_shares():
    question = Question("Who?", "the blue door", "single")
    marks = [mark(question, given) for given in ("The blue door.", "a blue door", "red")]
    row = row_of(marks, 1)
    assert (row["questions"], row["exact_match"], row["refused"]) == (3, 0.3333, 0.0)
    assert row["f1"] == pytest.approx(2 / 3, abs=1e-4)
    assert mark(question, "The document does not say.").refused


def test_a_list_must_name_every_value_in_whatever_order_and_no_other():
    assert names_all("b, c and a", "a, b and c")
    assert not names_all("a and b", "a, b and c")
    assert not names_all("a, b, c and d", "a, b and c")
    assert mark(Question("Which?", "a and b", "list"), "b and a").right
    assert not mark(Question("Which?", "a and b", "two keys"), "b and a").right


def test_overlap_counts_words_without_articles_and_marks():
    assert overlap("the Eiffel Tower!", "Eiffel tower") == 1
    assert overlap("in the old town", "old town hall") == pytest.approx(2 / 3)
    assert overlap("", "x") == 0


def test_case_blanks_and_the_final_stop_do_not_count():
    assert normalise(" The  Document does\nnot say. ") == normalise("the document does not say")
    assert normalise("22:25") != normalise("22:24")
