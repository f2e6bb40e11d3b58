"""Prepare what training reads: the tokenizer and the tokenized haystacks.

    python -m training.prepare --data DIR --out DIR [--tokenizer reader/weights/tokenizer.json]

DIR holds `books/*.txt.gz`, `squad/train-v1.1.json.gz` and `fairytaleqa/train.json.gz`. To go on
from weights, --tokenizer keeps theirs.
"""

import argparse
import gzip
import multiprocessing as mp
import os
import re
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
from tokenizers import Tokenizer

from training.data.haystack import Ids, save_haystacks
from training.data.natural import Article, load_fairytales, load_squad
from training.data.needles import draw_needle
from training.data.phrasing import StyleConfig
from training.data.prose import GENRES
from training.data.split import HELD_OUT_BOOKS
from training.model import READER
from training.tokenizer import save_tokenizer, train_tokenizer, without_prefix

GENRE_CHARACTERS = 3_000_000
SEED = 20


def read_books(data: Path, names: Collection[str] | None = None) -> dict[str, str]:
    """Text of every book by its name; runs of blank lines become one.

    Args:
        names: of the books that are wanted; all without it.
    """
    files = {file.name.removesuffix(".txt.gz"): file for file in (data / "books").glob("*.txt.gz")}
    return {
        name: re.sub(r"\n{3,}", "\n\n", gzip.decompress(files[name].read_bytes()).decode("utf-8"))
        for name in sorted(files)
        if names is None or name in names
    }


def read_articles(data: Path, *, held_out: bool) -> list[Article]:
    """SQuAD's articles and FairytaleQA's stories on one side of the split."""
    squad = data / "squad" / "train-v1.1.json.gz"
    stories = data / "fairytaleqa" / "train.json.gz"
    return load_squad(squad, held_out=held_out) + load_fairytales(stories, held_out=held_out)


def make_genre(name: str, characters: int, rng: Random) -> str:
    """Text of one genre of generated prose."""
    parts: list[str] = []
    while characters > 0:
        parts.append(GENRES[name](rng))
        characters -= len(parts[-1])
    return "".join(parts)


def facts_text(rng: Random) -> Iterator[str]:
    """Statements, questions and answers for the tokenizer, without end."""
    while True:
        needle = draw_needle(rng, StyleConfig(), 600)
        for chunk in needle.chunks:
            yield chunk.text
        for question in needle.questions:
            yield question.text
            yield question.answer


def wrapped(text: str) -> str:
    """Text broken into lines of about 70 characters, as in plain-text files."""
    words = text[:600_000].split(" ")
    lines, width = [], 0
    for word in words:
        width += len(word) + 1
        lines.append(word + ("\n" if width > 70 else " "))
        width = 0 if width > 70 or "\n" in word else width
    return "".join(lines)


def make_genres() -> dict[str, str]:
    """Text of every genre, each in a process of its own."""
    with mp.get_context("fork").Pool(min(len(GENRES), os.cpu_count() or 1)) as pool:
        return dict(zip(GENRES, pool.map(_make_genre, GENRES), strict=True))


def _make_genre(name: str) -> str:
    return make_genre(name, GENRE_CHARACTERS, Random(f"{name} {SEED}"))


def prepare(data: Path, out: Path, tokenizer_file: Path | None) -> None:
    """Train a tokenizer on what is trained on, unless one is given; tokenize all haystacks."""
    genres = make_genres()
    books, rng = read_books(data), Random(SEED)
    training = {name: text for name, text in books.items() if name not in HELD_OUT_BOOKS}
    if tokenizer_file:
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
    else:
        articles = read_articles(data, held_out=False)
        tokenizer = train_tokenizer(_sample(training, genres, articles, rng))
    save_tokenizer(tokenizer, out, READER.context_length)
    for name in list(training)[::8]:
        books[f"{name} (wrapped)"] = wrapped(training[name])
    save_haystacks(out, tokenize_all(tokenizer, {**books, **genres}))


def tokenize_all(tokenizer: Tokenizer, texts: dict[str, str]) -> dict[str, Ids]:
    """Tokenize texts by paragraph blocks, as they would stand inside a document."""
    inner = without_prefix(tokenizer)
    return {name: _tokenize(inner, text) for name, text in texts.items()}


def _tokenize(inner: Tokenizer, text: str) -> Ids:
    blocks = re.split(r"(?<=\n)(?=\S)", text)  # an indentation stays with its line's break
    found = inner.encode_batch_fast(blocks, add_special_tokens=False)
    return np.concatenate([np.array(one.ids, np.uint16) for one in found])


def _sample(
    books: dict[str, str], genres: dict[str, str], articles: list[Article], rng: Random
) -> Iterator[str]:
    for text in books.values():
        yield from (text[at : at + 5000] for at in range(0, len(text), 25_000))
    for text in genres.values():
        yield from (text[at : at + 5000] for at in range(0, len(text), 30_000))
    for article in articles[::3]:
        for passage in article.passages[::3]:
            yield passage.text
            yield from (question for question, _ in passage.questions)
    yield from islice(facts_text(rng), 60_000)


def main() -> None:
    """Parse the command line and prepare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json to keep")
    options = parser.parse_args()
    prepare(options.data, options.out, options.tokenizer)


if __name__ == "__main__":
    main()
