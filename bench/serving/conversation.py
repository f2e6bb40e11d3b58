"""Time to the first token of later turns of a conversation, against the same question asked first.

    python -m bench.serving.conversation --tokens 16384

The model is served as by default: its own head plan, the budget `balanced`. In each round ten
questions follow each other, and keys and values of each turn are kept as the server keeps them,
which is not timed. Each question is also asked without the turns before it; the ratio of the two is
what a turn costs more. The same conversation with nothing kept tells what that saves, and whether
an answer depends on it: no figure is given if one does, in fp32. On a CPU one thread works unless
more are asked for, and its processor time counts.
"""

import argparse
from pathlib import Path
from typing import Any

import torch

from bench import RESULTS
from bench.random_llama import SEED
from bench.serving.first_token import document_of, read_and_reload, timed
from engine.config import DecodeConfig, ModelConfig
from engine.decode.running_answer import RunningAnswer
from engine.decode.sampling import Sampling
from engine.decode.turn_states import DocumentKey
from engine.document.budget import BALANCED
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import load_model
from engine.model.prompt import Turn
from precompute.config import PrecomputeConfig
from reader import HANDBOOK, WEIGHTS
from training.record import circumstances, drawn, percentiles, write

QUESTIONS = (
    "Who looks after the archive?",
    "What is the telephone number of the front desk?",
    "How much may be spent on travel in a month?",
    "Which code opens the store room?",
    "When is the yearly inspection held?",
    "Who repairs the lift when it is stuck?",
    "Where are the keys of the cellar kept?",
    "How many days of leave are there in a year?",
    "Which door is locked in the evening?",
    "Who is called when the alarm rings?",
)
KEY = DocumentKey("the document", "its only reading")


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=str(WEIGHTS))
    parser.add_argument("--drawn", default="", help="the shape of random weights in that folder")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--answer-tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5, help="conversations")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of torch, on a CPU")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(options.threads)
    print(write(f"conversation_{options.device}", measure(options), options.out).read_text())


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Read a document of so many tokens, and time conversations about it."""
    model = load_model(ModelConfig(options.model, device=options.device))
    text = document_of(model, (HANDBOOK / "handbook.md").read_text(), options.tokens)
    document, _ = read_and_reload(model, text, PrecomputeConfig())
    sampling = Sampling(max_tokens=options.answer_tokens, ignore_eos=True)
    keeps, forgets = Engine(model), Engine(model, DecodeConfig(turn_state_bytes=0))
    first: list[list[float]] = [[] for _ in QUESTIONS]
    kept: list[list[float]] = [[] for _ in QUESTIONS]
    evicted: list[list[float]] = [[] for _ in QUESTIONS]
    different = 0
    weights = drawn(options.drawn, SEED) if options.drawn else model.weights
    converse(forgets, document, QUESTIONS[:2], sampling)  # whatever a first pass prepares
    for _ in range(options.repeats):
        keeps.turn_states.drop(KEY.owner)
        turns: list[Turn] = []
        for place, question in enumerate(QUESTIONS):
            alone_ms, _ = ask(forgets, document, question, [], sampling)
            kept_ms, answer = ask(keeps, document, question, turns, sampling)
            evicted_ms, other = ask(forgets, document, question, turns, sampling)
            different += answer != other
            first[place].append(alone_ms)
            kept[place].append(kept_ms)
            evicted[place].append(evicted_ms)
            turns.append(Turn(question, answer))
            keep(keeps, document, turns)
    if different and model.dtype == torch.float32:
        raise SystemExit(f"{different} answers depend on what is kept: no figure is given.")
    return {
        "benchmark": "conversation",
        "clock": "processor time" if options.device == "cpu" else "wall time",
        **circumstances(options.device, weights),
        "document_tokens": document.num_tokens,
        "answer_tokens": options.answer_tokens,
        "different_answers": different,
        "kept_bytes": keeps.turn_states.num_bytes,
        "times_the_first_turn": {"kept": by_turn(kept, first), "evicted": by_turn(evicted, first)},
        "first_token_ms": {
            name: {f"turn_{place + 1}": percentiles(found) for place, found in enumerate(times)}
            for name, times in (("asked_first", first), ("kept", kept), ("evicted", evicted))
        },
    }


def by_turn(times: list[list[float]], first: list[list[float]]) -> dict[str, dict[str, float]]:
    """How many times longer each turn takes than its question takes as the first one."""
    return {
        f"turn_{place + 1}": percentiles(
            [late / alone for late, alone in zip(times[place], first[place], strict=True)]
        )
        for place in range(len(times))
    }


def converse(
    engine: Engine, document: DocumentCache, questions: tuple[str, ...], sampling: Sampling
) -> None:
    """Ask questions one after the other."""
    turns: list[Turn] = []
    for question in questions:
        _, answer = ask(engine, document, question, turns, sampling)
        turns.append(Turn(question, answer))


def ask(
    engine: Engine,
    document: DocumentCache,
    question: str,
    turns: list[Turn],
    sampling: Sampling,
) -> tuple[float, str]:
    """Milliseconds from the question's text to its first token, and the whole answer."""
    asked: list[RunningAnswer] = []

    def begin() -> None:
        running = engine.prepare(
            document, question, budget=BALANCED, sampling=sampling, turns=turns, document_key=KEY
        )
        engine.add(running)
        asked.append(running)
        while not running.answer:
            engine.step([running])

    spent_ms = timed(begin)
    (running,) = asked
    while not running.is_finished:
        engine.step([running])
    engine.finish(running)
    return spent_ms, running.result().text


def keep(engine: Engine, document: DocumentCache, turns: list[Turn]) -> None:
    """Keep the turns, as the engine loop does after an answer."""
    running = engine.prepare_turns(document, turns, budget=BALANCED, document_key=KEY)
    engine.add(running)
    while not running.is_finished:
        engine.step([running])
    engine.finish(running)
    running.keep_turns(num_turns=len(turns))


if __name__ == "__main__":
    main()
