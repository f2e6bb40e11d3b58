"""Exams are answered as the product answers."""

from dataclasses import replace
from random import Random

import pytest
import torch
from tokenizers import Tokenizer

import reader
from bench.heads.check import differing_answers, with_plan
from bench.heads.controls import random_plan, streaming_plan
from bench.heads.exam import make_exam
from bench.heads.sitting import sit
from engine.config import ModelConfig
from engine.model.head_plan import ALL
from engine.model.loader import load_model
from training.data.plants import Question
from training.data.prose import minutes
from training.examiner import Sheet
from training.model import Reader
from training.shape import TINY
from training.tokenizer import save_tokenizer
from training.weights import load_weights, save_weights

TOKENIZER = Tokenizer.from_file(str(reader.WEIGHTS / "tokenizer.json"))
SHAPE = replace(TINY, width=96, heads=6, kv_heads=3, head_dim=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(4)
    model = Reader(SHAPE)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.15)  # so that answers differ
    target = tmp_path_factory.mktemp("tiny")
    save_weights(model, target)
    save_tokenizer(TOKENIZER, target, SHAPE.context_length)
    return target


@pytest.fixture(scope="module")
def asked():
    texts = ("Who keeps the minutes?", "When did the board meet, and where?", "What was agreed?")
    questions = tuple(Question(text, "about as long as this", "single") for text in texts)
    return Sheet("".join(minutes(Random(seed)) for seed in range(3))[:5000], questions)


def plans(spec):
    mixed = replace(random_plan(spec, 0.5, seed=1), num_sinks=4, window=48)
    return {
        "mixed": mixed,
        "uncompensated": replace(mixed, compensation=False),
        "streaming": replace(streaming_plan(spec), num_sinks=8, window=100),
        "a window longer than the document": replace(mixed, window=5000),
    }


@pytest.mark.parametrize(
    "name", ["mixed", "uncompensated", "streaming", "a window longer than the document"]
)
def test_answers_are_the_engines(name, folder, asked):
    model = load_model(ModelConfig(str(folder), device="cpu", dtype="float32", heads=ALL))
    served = with_plan(model, plans(model.spec)[name])
    assert differing_answers(served, load_weights(folder), TOKENIZER, asked) == []


def test_answers_depend_on_the_plan(folder, asked):
    spec = load_model(ModelConfig(str(folder), device="cpu", dtype="float32", heads=ALL)).spec
    exam = make_exam([asked], TOKENIZER, torch.device("cpu"))
    model = load_weights(folder)
    answers = {tuple(sit(model, exam, plan, TOKENIZER)) for plan in plans(spec).values()}
    assert len(answers) == 4
