"""How often the right passage comes first, or among the first three, against plain BM25.

    python -m bench.accuracy.evidence --data DIR [--sample 40] [--mode quote] [--workers 2]
    python -m bench.accuracy.evidence --data DIR --fit

Natural questions: held-out articles of SQuAD and held-out stories of FairytaleQA, each read whole
as a text file by the bundled reader on a CPU; the right passage is the sentence that holds the
answer. Planted facts: books of 16K tokens with needles, where it is any sentence that holds the
answer's value. Beside the evidence stand its parts: attention alone, the lexical score alone; and
plain BM25 over the same sentences. Differences have paired 95 % intervals. `--fit` asks about
articles that readers are trained on instead, and prints which weights of the blend are best there.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from bench import RESULTS
from common.lexical import LexicalIndex, words_of
from common.passages import structure_of
from engine.attend.evidence import blend
from engine.config import AnswerMode, ModelConfig
from engine.decode.sampling import Sampling
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.fingerprint import weights_fingerprint
from engine.model.loader import LoadedModel, load_model
from ingest.extract import extract
from ingest.limits import Limits
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from reader import WEIGHTS
from training.data.natural import Article, load_fairytales, load_squad
from training.eval_set import DocumentKey, EvalSet
from training.intervals import paired_wilson, wilson
from training.record import circumstances, write
from training.worker_pool import devices_for, run_tasks

SQUAD, FAIRYTALES, PLANTED = "squad", "fairytaleqa", "planted"
PLANTED_TASKS = ("single", "same attribute", "same entity")
PLANTED_TOKENS = 16384
NUM_QUESTIONS = 400  # natural ones
QUESTIONS_A_DOCUMENT = {SQUAD: 8, FAIRYTALES: 6, PLANTED: 20}
FAIRYTALE_SHARE = 0.3  # of the natural questions
NUM_PLANTED = 200
MAX_TOKENS = 64
RANKINGS = ("evidence", "attention", "lexical", "bm25")
WEIGHTS_TRIED = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)


@dataclass(frozen=True)
class AskedText:
    """A text, and questions about it with the spans of characters that answer each.

    Attributes:
        source: "squad", "fairytaleqa" or "planted".
        questions: (question, spans), any of which is right.
    """

    source: str
    text: str
    questions: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]


@dataclass(frozen=True)
class Ranked:
    """A question's passages by each ranking: whether the right one is first, or among three.

    Attributes:
        shares, scores: of attention, and lexical, of all passages, for `--fit`. They are no
            tensors, as a process may end before another one has opened what it sent.
        right: indices of the right passages.
    """

    source: str
    question: str
    first: Mapping[str, bool]
    third: Mapping[str, bool]
    shares: tuple[float, ...]
    scores: tuple[float, ...]
    right: frozenset[int | None]


def natural_texts(data: Path, num_questions: int, *, held_out: bool) -> Iterator[AskedText]:
    """Whole articles and stories, in an order drawn once."""
    squad = data / "squad" / "train-v1.1.json.gz"
    fairytales = data / "fairytaleqa" / "train.json.gz"
    stories = round(num_questions * FAIRYTALE_SHARE)
    for source, articles, wanted in (
        (SQUAD, load_squad(squad, held_out=held_out), num_questions - stories),
        (FAIRYTALES, load_fairytales(fairytales, held_out=held_out), stories),
    ):
        Random(source).shuffle(articles)
        for article in articles:
            if wanted <= 0:
                break
            most = min(wanted, QUESTIONS_A_DOCUMENT[source])
            text = _asked_article(source, article, most)
            wanted -= len(text.questions)
            if text.questions:
                yield text


def _asked_article(source: str, article: Article, most: int) -> AskedText:
    text, pairs = "", []
    for passage in article.passages:
        start = len(text)
        words = " ".join(passage.text.split())
        text += words + "\n\n"
        for question, answer in passage.questions:
            plain = " ".join(answer.split())
            if words.count(plain) == 1:  # only then is it known which sentence answers
                at = start + words.index(plain)
                pairs.append((question, ((at, at + len(plain)),)))
    drawn = Random(article.title).sample(pairs, min(most, len(pairs)))
    return AskedText(source, text, tuple(drawn))


def planted_texts(data: Path, num_questions: int, num_tokens: int) -> Iterator[AskedText]:
    """Books with planted facts."""
    drawn = EvalSet(WEIGHTS / "tokenizer.json", data)
    number = 0
    while num_questions > 0:
        task = PLANTED_TASKS[number % len(PLANTED_TASKS)]
        document = drawn.document(DocumentKey(num_tokens, task, number))
        number += 1
        found = []
        for question in document.questions:
            spans = _spans_of(document.text, question.answer)
            if spans:
                found.append((question.text, spans))
        found = found[: min(num_questions, QUESTIONS_A_DOCUMENT[PLANTED])]
        num_questions -= len(found)
        yield AskedText(PLANTED, document.text, tuple(found))


def _spans_of(text: str, answer: str) -> tuple[tuple[int, int], ...]:
    """Where an answer's value stands; nowhere if it stands at so many places that it tells none."""
    value = answer.strip().rstrip(".")
    spans, at = [], text.find(value)
    while at >= 0 and value:
        spans.append((at, at + len(value)))
        at = text.find(value, at + 1)
    return tuple(spans) if len(spans) <= 3 else ()


def start(options: argparse.Namespace, device: str) -> Callable[[AskedText], list[Ranked]]:
    """Load the reader; return what reads a text and asks its questions."""
    model = load_model(ModelConfig(str(options.model), device=device))
    engine = Engine(model)

    def work(asked: AskedText) -> list[Ranked]:
        document = read(model, asked.text)
        return [
            rank(engine, document, asked.source, question, spans, options)
            for question, spans in asked.questions
        ]

    return work


def read(model: LoadedModel, text: str) -> DocumentCache:
    """Read a text as an uploaded file."""
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(text.encode())
        file.flush()
        found = extract(Path(file.name), "txt", Limits())
    structure = structure_of(found.text, found.blocks)
    return precompute_document(
        model, found.text, [], PrecomputeConfig(), lambda *_: None, structure=structure
    )


def rank(
    engine: Engine,
    document: DocumentCache,
    source: str,
    question: str,
    spans: Sequence[tuple[int, int]],
    options: argparse.Namespace,
) -> Ranked:
    """Answer a question, and say where the right passage is in each ranking."""
    structure = document.structure
    right = {structure.find_passage(first) for first, _ in spans}
    sampling = Sampling(max_tokens=MAX_TOKENS, mode=options.mode)
    running = engine.prepare(document, question, budget=options.budget, sampling=sampling)
    engine.add(running)
    try:
        while not running.is_finished:
            engine.step([running])
    finally:
        engine.finish(running)
    shares = running.passage_shares
    lexical = torch.from_numpy(document.lexical.scores(question)).float()
    text = document.text
    plain = LexicalIndex([words_of(text[one.start : one.end]) for one in structure.passages])
    evidence = [structure.find_passage(one.start_char) for one in running.result().evidence]
    rankings: dict[str, list[int | None]] = {
        "evidence": evidence[:3],
        "attention": _best(shares),
        "lexical": _best(lexical),
        "bm25": _best(torch.from_numpy(plain.scores(words_of(question))).float()),
    }
    return Ranked(
        source,
        question,
        {name: bool(order) and order[0] in right for name, order in rankings.items()},
        {name: bool(right & set(order)) for name, order in rankings.items()},
        tuple(shares.tolist()),
        tuple(lexical.tolist()),
        frozenset(right),
    )


def _best(scores: Tensor) -> list[int | None]:
    best: list[int | None] = scores.argsort(descending=True, stable=True)[:3].tolist()
    return best


def summarise(ranked: Sequence[Ranked], options: argparse.Namespace) -> dict[str, Any]:
    """The result: shares with intervals, and differences with paired ones."""
    natural = [one for one in ranked if one.source != PLANTED]
    result: dict[str, Any] = {
        "benchmark": "evidence",
        **circumstances("cpu", weights_fingerprint(options.model)),
        "mode": options.mode,
        "budget": options.budget,
        "natural": _told(natural),
        PLANTED: _told([one for one in ranked if one.source == PLANTED]),
    }
    for source in (SQUAD, FAIRYTALES):
        result[source] = _told([one for one in natural if one.source == source])
    return result


def _told(ranked: Sequence[Ranked]) -> dict[str, Any]:
    found: dict[str, Any] = {"questions": len(ranked)}
    if not ranked:
        return found
    for label in ("first", "third"):
        hits = {name: [int(getattr(one, label)[name]) for one in ranked] for name in RANKINGS}
        key = "hit_at_1" if label == "first" else "hit_at_3"
        found[key] = {
            name: {"share": sum(own) / len(own), "interval": wilson(sum(own), len(own))}
            for name, own in hits.items()
        }
        base = hits["bm25"]
        found[f"{key}_above_bm25"] = {
            name: {
                "points": (sum(own) - sum(base)) / len(base),
                "interval": paired_wilson(own, base),
            }
            for name, own in hits.items()
            if name != "bm25"
        }
    return found


def fit(ranked: Sequence[Ranked]) -> list[tuple[float, float, float]]:
    """The weights of attention that were tried: hit@1, hit@3 and the weight, the best first."""
    found = []
    for weight in WEIGHTS_TRIED:
        first = third = 0
        for one in ranked:
            order = _best(
                blend(torch.tensor(one.shares), torch.tensor(one.scores), attention_weight=weight)
            )
            first += order[0] in one.right
            third += bool(one.right & set(order))
        found.append((first / len(ranked), third / len(ranked), weight))
    return sorted(found, key=lambda one: -(one[0] + one[1]))


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print and write the result."""
    options = parse(given)
    num_natural = options.sample or NUM_QUESTIONS
    texts = list(natural_texts(options.data, num_natural, held_out=not options.fit))
    if not options.fit:
        num_planted = min(NUM_PLANTED, options.sample or NUM_PLANTED)
        texts += planted_texts(options.data, num_planted, options.tokens)
    ranked: list[Ranked] = []
    name = "evidence" if options.mode == "free" else f"evidence_{options.mode}"
    for text, own in run_tasks(texts, partial(start, options), devices_for("cpu", options.workers)):
        ranked += own
        print(f"{text.source}: {len(text.text)} characters, {len(ranked)} questions", flush=True)
        if not options.fit:  # hours of work are not lost where the run is cut short
            write(name, summarise(ranked, options), options.out)
    if options.fit:
        for first, third, weight in fit(ranked):
            print(f"weight {weight}: hit@1 {first:.3f}, hit@3 {third:.3f}")
        return
    result = summarise(ranked, options)
    for kind in ("natural", PLANTED):
        for key in ("hit_at_1", "hit_at_3"):
            shares = {one: told["share"] for one, told in result[kind].get(key, {}).items()}
            print(kind, key, {one: round(share, 3) for one, share in shares.items()})


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    modes: tuple[AnswerMode, ...] = ("free", "quote")
    parser.add_argument("--model", type=Path, default=WEIGHTS)
    parser.add_argument(
        "--data", type=Path, required=True, help="holds squad/, fairytaleqa/, books/"
    )
    parser.add_argument("--sample", type=int, default=0, help="so many natural questions; 0: all")
    parser.add_argument("--tokens", type=int, default=PLANTED_TOKENS, help="of books with facts")
    parser.add_argument("--budget", type=float, default=0.15)
    parser.add_argument("--mode", choices=modes, default="free")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--fit", action="store_true", help="on articles of the training side")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
