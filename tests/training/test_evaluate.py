"""An evaluation: documents of the asked length, answers of the engine, a table that grows."""

import json
from dataclasses import replace
from functools import partial
from multiprocessing.reduction import ForkingPickler
from random import Random

import pytest

from common.errors import InvalidInput
from engine.config import ModelConfig
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT
from engine.engine import Engine
from engine.model.head_plan import HeadPlan, write_plan
from engine.model.loader import load_model
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from tests.training.material import TOKENIZER, write_data, write_weights
from training.data.facts import Question
from training.data.natural import load_squad
from training.eval_set import FICTIONAL, DocumentKey, EvalDocument, EvalSet, read_fictional
from training.eval_tasks import ARTICLE, PARAGRAPH, eval_tasks, release_tasks
from training.evaluate import EvalConfig, _start, describe, evaluate
from training.evaluator import Evaluator
from training.model import TINY

SHAPE = replace(TINY, width=96, heads=6, kv_heads=3, head_dim=16)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp("weights"), SHAPE)


@pytest.fixture(scope="module")
def eval_set(data, weights):
    return EvalSet(weights / "tokenizer.json", data)


# -- the documents ---------------------------------------------------------------------------------


def test_documents_have_the_length_and_hold_the_answers(eval_set):
    for task in (*eval_tasks(), *release_tasks()):
        document = eval_set.needle_document(task, 8000, Random(2))
        assert len(document.questions) == 20
        tokens = len(TOKENIZER.encode(document.text, add_special_tokens=False).ids)
        assert tokens == pytest.approx(8000, rel=0.15)
        if task.kinds[0] not in ("unanswerable", "list", "two keys", "three keys"):
            assert all(one.answer.lower() in document.text.lower() for one in document.questions)


def test_a_document_follows_from_its_key_and_the_seed(eval_set, weights, data):
    key = DocumentKey(4096, "single", 3)
    other = EvalSet(weights / "tokenizer.json", data, seed=2)
    assert eval_set.document(key) == eval_set.document(key)
    assert eval_set.document(key) != other.document(key)


def test_documents_of_several_tasks_take_them_in_turn(eval_set):
    names = ("single", "pass phrase, 32 words")
    documents = eval_set.mixed(names, num_tokens=3000, count=4, questions=3)
    assert [len(one.questions) for one in documents] == [3] * 4
    kinds = [{question.kind for question in one.questions} for one in documents]
    assert kinds == [{"single"}, {"pass phrase"}] * 2


def test_a_paragraph_alone_and_its_article_never_come_from_training(eval_set, data):
    trained = load_squad(data / "squad" / "train-v1.1.json.gz", held_out=False)
    assert {one.title for one in eval_set.articles}.isdisjoint(one.title for one in trained)
    paragraph = eval_set.document(DocumentKey(0, PARAGRAPH, 0))
    article = eval_set.document(DocumentKey(0, ARTICLE, 0))
    assert (len(paragraph.questions), len(article.questions)) == (4, 20)
    assert article.text.count("says the story") == 3


def test_every_fictional_document_has_eight_questions():
    assert all(len(read_fictional(folder).questions) == 8 for folder in FICTIONAL)


def test_without_held_out_books_there_are_no_documents(weights, tmp_path):
    with pytest.raises(InvalidInput, match=r"books.*holds none of frankenstein"):
        EvalSet(weights / "tokenizer.json", tmp_path)


# -- the answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", ["default", "plan"])
@pytest.mark.parametrize("budget", [0.2, EXACT])
def test_answers_are_the_engines(weights, tmp_path, heads, budget):
    if heads == "plan":
        heads = str(tmp_path / "plan.json")
        retrieval = ((True, False, False), (False, True, False))
        write_plan(HeadPlan("file", retrieval, num_sinks=8, window=48), tmp_path / "plan.json")
    text = "Mara Stenholt keeps the amber pump in room 4. " * 40
    questions = ["Who keeps it?", "In which room is the amber pump, and why there?", "How many?"]
    evaluator = Evaluator(weights, device="cpu", heads=heads, max_tokens=12)
    model = load_model(ModelConfig(str(weights), device="cpu", heads=heads))
    read = precompute_document(
        model, text, [(1, 0, len(text))], PrecomputeConfig(), lambda *_: None
    )
    cache = evaluator.read(text)
    answers = set()
    for question in questions:
        sampling, engine = Sampling(max_tokens=12), Engine(model)
        *_, expected = engine.answer(read, question, budget=budget, sampling=sampling)
        asked = Question(question, expected.text, "single")
        said, score = evaluator.ask(cache, asked, budget)
        assert said.text == expected.text
        assert (score.right, score.loaded) == (True, expected.budget.loaded)
        answers.add(said.text)
    assert len(answers) > 1
    wrong = EvalDocument(text, (Question(questions[0], "Nobody", "single"),))
    assert [one.right for one in evaluator.score(wrong, budget)] == [False]


# -- the table -------------------------------------------------------------------------------------


def test_an_untrained_reader_fails_and_the_table_says_so(data, weights, tmp_path):
    config = EvalConfig(
        weights, data, max_tokens=4, tasks=(PARAGRAPH,), questions=8, budget="exact"
    )
    progress = list(evaluate(config, tmp_path / "result.json"))
    assert [one.done for one in progress] == [1, 2]
    assert [bool(one.line) for one in progress] == [False, True]
    text = (tmp_path / "result.json").read_text()
    row = json.loads(text)["cells"][PARAGRAPH]["own"]
    assert (row["documents"], row["questions"], row["right"]) == (2, 8, 0)
    assert row["by_question"]["loaded"] == [1.0] * 8
    assert '"right": [0, 0, 0, 0, 0, 0, 0, 0]' in text


def test_what_worker_processes_start_with_can_be_sent_to_them(data, weights):
    ForkingPickler.dumps(partial(_start, EvalConfig(weights, data)))


def test_the_head_of_a_result_says_what_was_measured(data, weights, tmp_path):
    heads = tmp_path / "plan.json"
    write_plan(HeadPlan("file", ((True, False, False), (False, True, False))), heads)
    config = EvalConfig(weights, data, max_tokens=4, tasks=(PARAGRAPH,), questions=4, budget="0.3")
    about = []
    for plan in ("all", str(heads)):
        list(evaluate(replace(config, heads=plan), tmp_path / "result.json"))
        about.append(json.loads((tmp_path / "result.json").read_text())["about"])
    assert about[0]["weights"] == about[1]["weights"]
    assert [one["head_plan"]["method"] for one in about] == ["all", "file"]
    assert about[0]["head_plan"]["fingerprint"] != about[1]["head_plan"]["fingerprint"]
    assert about[1]["budget"] == 0.3
    assert about[1]["read_settings"]["num_probes"] == PrecomputeConfig().num_probes
    assert {"commit", "versions", "seed", "device"} <= set(about[1])


def test_the_releases_test_set_is_opened_only_when_it_is_asked_for(data, weights, tmp_path):
    config = EvalConfig(weights, data, questions=1)
    released = {task.name for task in release_tasks()}
    assert released.isdisjoint(key.task for key in config.documents())
    assert {key.task for key in replace(config, release=True).documents()} == released
    for name in released:
        with pytest.raises(InvalidInput, match="no task"):
            replace(config, tasks=(name,)).documents()
    assert describe(replace(config, release=True))["test_set"] == "release"


def test_a_run_is_resumed_from_the_rows_of_an_earlier_one(data, weights, tmp_path):
    config = EvalConfig(weights, data, max_tokens=4, tasks=(PARAGRAPH,), questions=4, resume=True)
    out = tmp_path / "result.json"
    assert len(list(evaluate(config, out))) == 1
    first = json.loads(out.read_text())["cells"]
    assert list(evaluate(config, out)) == []  # nothing is left
    more = replace(config, tasks=(PARAGRAPH, ARTICLE))
    assert len(list(evaluate(more, out))) == 1
    rows = json.loads(out.read_text())["cells"]
    assert rows[PARAGRAPH] == first[PARAGRAPH]
    assert ARTICLE in rows
    with pytest.raises(InvalidInput, match="another budget"):
        list(evaluate(replace(config, budget="exact"), out))


def test_what_the_table_does_not_have_is_refused(data, weights, tmp_path):
    def refused(**what):
        config = EvalConfig(**{"weights": weights, "data": data, **what})
        with pytest.raises(InvalidInput) as error:
            list(evaluate(config, tmp_path / "result.json"))
        return error.value.message

    assert "no task 'singel'; it has: single, same attribute" in refused(tasks=("singel",))
    assert "no length '5000'" in refused(lengths=(5000,))
    assert "None of these tasks" in refused(tasks=("list",), lengths=(4096,))
    assert "lacks squad/train-v1.1.json.gz, books/frankenstein.txt.gz" in refused(data=tmp_path)
    assert "The budget 'much'" in refused(budget="much")
