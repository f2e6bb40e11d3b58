"""Many questions at once on a CPU: the same tokens as alone, and how many more of them in a second.

    python -m bench.serving.crowd --tokens 8192 --documents 8 --streams 64

The bundled reader answers greedily under the budget `balanced`, every answer to the same number of
tokens. First each question is asked alone, one after the other; then all at once, of the engine
loop that serves. How many streams have other tokens in the crowd than alone, or load another share
of their document's cache, is told beside the figure. Two threads work, as on a machine of two
cores; the ratio of the two rates counts, from the same run.
"""

import argparse
import json
import threading
import time
from pathlib import Path

import torch

from bench import RESULTS
from bench.serving.first_token import QUESTIONS, document_of
from common.owner import Owner
from engine.config import ModelConfig
from engine.decode.answer import Answer, TextDelta
from engine.decode.running_answer import RunningAnswer
from engine.decode.sampling import Sampling
from engine.document.artifact import pack, unpack
from engine.document.budget import BALANCED
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import LoadedModel, load_model
from engine.serving.engine_loop import EngineLoop
from engine.serving.request import AnswerRequest
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from reader import HANDBOOK, WEIGHTS
from training.record import circumstances, percentiles, write

SUBJECTS = ("the archive", "the front desk", "travel", "the store room", "the inspection", "keys")


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=str(WEIGHTS))
    parser.add_argument("--tokens", type=int, default=8192, help="of a document")
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--answer", type=int, default=32, help="tokens of an answer")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="folder that keeps the documents that were read")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = load_model(ModelConfig(arguments.model, device="cpu", dtype="float32"))
    documents = [
        read_once(model, number, arguments.tokens, arguments.cache)
        for number in range(arguments.documents)
    ]
    asked = [question_of(number) for number in range(arguments.streams)]
    how = Sampling(max_tokens=arguments.answer, ignore_eos=True)
    alone_s, alone = ask_alone(model, documents, asked, how)
    crowd_s, crowd = ask_together(model, documents, asked, how)
    differing = [number for number, one in enumerate(alone) if one.tokens != crowd[number].tokens]
    loads = [one.loaded != crowd[number].loaded for number, one in enumerate(alone)]
    num_tokens = sum(len(one.tokens) for one in crowd)
    result = {
        "benchmark": "crowd_cpu",
        **circumstances("cpu", model.weights),
        "streams": len(asked),
        "documents": len(documents),
        "document_tokens": documents[0].num_tokens,
        "answer_tokens": arguments.answer,
        "threads": arguments.threads,
        "streams_with_other_tokens": len(differing),
        "streams_with_another_share_loaded": sum(loads),
        "alone_tokens_per_s": num_tokens / alone_s,
        "crowd_tokens_per_s": num_tokens / crowd_s,
        "times_more_tokens_per_s": alone_s / crowd_s,
        "crowd_first_token_s": percentiles([one.first_token_s for one in crowd]),
        "alone_first_token_s": percentiles([one.first_token_s for one in alone]),
    }
    for name, value in result.items():
        print(f"{name}: {value}")
    write("crowd_cpu", result, arguments.out)


class Stream:
    """One question: when it began, and what came of it; an `AnswerListener`."""

    is_cancelled = False
    document_key = None

    def __init__(self, document: DocumentCache) -> None:
        self._document = document
        self._began_s = time.perf_counter()
        self.first_token_s = 0.0
        self.tokens: tuple[int, ...] = ()
        self.loaded = 0.0
        self.error: Exception | None = None
        self.ended = threading.Event()

    def begin(self) -> None:
        """See `AnswerListener`."""

    def open_document(self) -> DocumentCache:
        """See `AnswerListener`."""
        return self._document

    def deliver(self, item: TextDelta | Answer) -> None:
        """See `AnswerListener`."""
        self.first_token_s = self.first_token_s or time.perf_counter() - self._began_s
        if isinstance(item, Answer):
            self.loaded = item.budget.loaded

    def end(self, error: Exception | None) -> None:
        """See `AnswerListener`."""
        self.error = error
        self.ended.set()


class NotingEngine(Engine):
    """An engine that remembers the tokens of all answers, in the order of their questions."""

    def __init__(self, model: LoadedModel) -> None:
        super().__init__(model)
        self.tokens: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}

    def finish(self, running: RunningAnswer) -> None:
        """Note the tokens of an answer."""
        super().finish(running)
        key = (id(running.state.document), tuple(running.question))
        self.tokens[key] = tuple(running.answer)


def question_of(number: int) -> str:
    """A question of its own for every stream."""
    subject = SUBJECTS[number % len(SUBJECTS)]
    return f"{QUESTIONS[number % len(QUESTIONS)]} Say what is known about {subject} ({number})."


def read_once(
    model: LoadedModel, number: int, num_tokens: int, folder: Path | None
) -> DocumentCache:
    """Read a document of its own for every number, or load it from what an earlier run has kept."""
    lines = (HANDBOOK / "handbook.md").read_text().splitlines()
    start = number * len(lines) // 16
    text = document_of(model, "\n".join(lines[start:] + lines[:start]), num_tokens)
    settings = PrecomputeConfig(dtype="float32")
    kept = None if folder is None else folder / f"{model.fingerprint[:12]}-{num_tokens}-{number}"
    if kept is None or not kept.exists():
        document = precompute_document(model, text, [(1, 0, len(text))], settings, lambda *_: None)
        if kept is None:
            return document
        manifest, files = pack(document, settings.dtype)
        kept.mkdir(parents=True)
        for name, data in files:
            (kept / name).write_bytes(data)
        (kept / "manifest.json").write_text(json.dumps(manifest))
    manifest = json.loads((kept / "manifest.json").read_text())
    paths = [path for path in sorted(kept.iterdir()) if path.name != "manifest.json"]
    stored = ((path.name, path.read_bytes()) for path in paths)
    return unpack(manifest, stored, device=model.device, dtype=model.dtype)


def ask_alone(
    model: LoadedModel, documents: list[DocumentCache], asked: list[str], how: Sampling
) -> tuple[float, list[Stream]]:
    """Ask one question after the other; the seconds that it took."""
    engine, streams = NotingEngine(model), []
    engine.runner.warm_up()
    started = time.perf_counter()
    for number, question in enumerate(asked):
        streams.append(stream := Stream(documents[number % len(documents)]))
        document = stream.open_document()
        for item in engine.answer(document, question, budget=BALANCED, sampling=how):
            stream.deliver(item)
    spent_s = time.perf_counter() - started
    note_tokens(engine, model, streams, asked)
    return spent_s, streams


def ask_together(
    model: LoadedModel, documents: list[DocumentCache], asked: list[str], how: Sampling
) -> tuple[float, list[Stream]]:
    """Ask all at once, every stream with a key of its own; the seconds until the last one ended."""
    engine = NotingEngine(model)
    loop = EngineLoop(engine, len(asked))
    loop.start()
    started = time.perf_counter()
    streams = [Stream(documents[number % len(documents)]) for number in range(len(asked))]
    for number, stream in enumerate(streams):
        loop.submit(AnswerRequest(Owner("bench", number), asked[number], BALANCED, how, stream))
    for stream in streams:
        stream.ended.wait()
        if stream.error is not None:
            raise stream.error
    spent_s = time.perf_counter() - started
    loop.close()
    note_tokens(engine, model, streams, asked)
    return spent_s, streams


def note_tokens(
    engine: NotingEngine, model: LoadedModel, streams: list[Stream], asked: list[str]
) -> None:
    """Give every stream the tokens of its answer."""
    for stream, question in zip(streams, asked, strict=True):
        ids = tuple(model.prompt.encode_question(question).tolist())
        stream.tokens = engine.tokens[id(stream.open_document()), ids]


if __name__ == "__main__":
    main()
