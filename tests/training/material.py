"""What an evaluation needs, in small: held-out books, articles, and an untrained reader."""

import gzip
import json
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer

import reader
from training.data.prose import minutes
from training.data.split import HELD_OUT_BOOKS
from training.model import TINY, Reader, Shape
from training.tokenizer import save_tokenizer
from training.weights import save_weights

TOKENIZER = Tokenizer.from_file(str(reader.WEIGHTS / "tokenizer.json"))
TEXT = "".join(minutes(Random(seed)) for seed in range(12))


def write_data(folder: Path) -> Path:
    """Books and SQuAD as an evaluation looks for them."""
    for part in ("books", "squad"):
        (folder / part).mkdir()
    for name in HELD_OUT_BOOKS:
        (folder / "books" / f"{name}.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    asked = [{"question": f"Who is number {n}?", "answers": [{"text": f"n{n}"}]} for n in range(9)]
    article = {"paragraphs": [{"context": "It is n1, says the story.", "qas": asked}] * 3}
    content = {"data": [{"title": f"Article {number}", **article} for number in range(40)]}
    file = folder / "squad" / "train-v1.1.json.gz"
    file.write_bytes(gzip.compress(json.dumps(content).encode()))
    return folder


def write_weights(folder: Path, shape: Shape = TINY) -> Path:
    """An untrained reader's folder; its weights differ enough for answers to differ."""
    torch.manual_seed(1)
    model = Reader(shape)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.15)
    save_weights(model, folder)
    save_tokenizer(TOKENIZER, folder, shape.context_length)
    return folder
