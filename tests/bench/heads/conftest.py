"""A tiny reader with three KV heads, and an exam of made-up ids."""

from dataclasses import replace

import pytest
import torch

from bench.heads.exam import Batch, Exam
from training.model import Reader
from training.shape import TINY

SHAPE = replace(TINY, vocabulary=300, heads=6, kv_heads=3, head_dim=16)


@pytest.fixture(scope="session")
def tiny_reader():
    torch.manual_seed(1)
    model = Reader(SHAPE)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.15)  # so that answers differ
    return model


@pytest.fixture(scope="session")
def tiny_exam():
    draw = torch.Generator().manual_seed(2)
    sizes, turn_sizes = torch.tensor([90, 70, 93]), torch.tensor([5, 3, 7, 4, 6, 7])
    documents = Batch(torch.randint(4, 300, (3, 93), generator=draw), sizes)
    turns = Batch(torch.randint(4, 300, (6, 7), generator=draw), turn_sizes)
    return Exam(documents, turns, ("",) * 6, max_tokens=9)
