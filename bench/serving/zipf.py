"""More documents than fit into memory, asked by Zipf's law, over HTTP.

python -m bench.serving.zipf --minutes 5

Of eight documents three fit on the device and three more on the host. Every answer has to be a
200, and neither the server's tiers nor its process may exceed their limits at any sample. The share
of questions that found their document on the device is told beside the best possible one: that of
a cache which knows all questions to come (Belady's rule) in the same order.
"""

import argparse
import random
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bench import RESULTS
from bench.faults.server import Caller, Server, serving, weights_of
from cli.model_report import report_on
from cli.settings import Settings
from reader import HANDBOOK, WEIGHTS
from training.record import circumstances, percentiles, write

DOCUMENTS, ON_DEVICE, ON_HOST = 8, 3, 3
CHARS = 12_000
TEMPLATE_TOKENS = 32  # about, around a document's text
QUESTION = "Who looks after the archive?"


def main() -> None:
    """Ask for some minutes, print and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--model", default="")
    parser.add_argument("--chars", type=int, default=CHARS, help="of each document")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    document_bytes = _document_bytes(options.model, options.chars)
    limits = {
        "LECTERN_SERVER__DEVICE_CACHE_BYTES": int((ON_DEVICE + 0.5) * document_bytes),
        "LECTERN_SERVER__HOST_CACHE_BYTES": int((ON_HOST + 0.5) * document_bytes),
    }
    settings = {name: str(value) for name, value in limits.items()}
    with serving(options.model, **settings) as server, closing(server.caller()) as caller:
        found = _measure(server, caller, options)
    device = "cuda" if _on_gpu() else "cpu"
    result = {
        "benchmark": "zipf",
        **circumstances(device, weights_of(options.model)),
        "documents": DOCUMENTS,
        "on_device": ON_DEVICE,
        "on_host": ON_HOST,
        "limits": limits,
        **found,
    }
    print(write(f"zipf_{device}", result, options.out).read_text())
    if found["errors"] or found["tier_excesses"]:
        sys.exit("an answer was refused, or a tier exceeded its limit")


def _on_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _document_bytes(model: str, num_chars: int) -> int:
    """Bytes of a document in memory, to a few percent."""
    report = report_on(Settings(model=model), model or str(WEIGHTS))
    sizes = report.cache_with_plan or report.cache
    assert sizes is not None
    tokenizer = Tokenizer.from_file(f"{model or WEIGHTS}/tokenizer.json")
    return sizes.of(len(tokenizer.encode(_text(0, num_chars)).ids) + TEMPLATE_TOKENS)


def _text(number: int, num_chars: int) -> str:
    """One of the documents, which differ in their first line."""
    text = (HANDBOOK / "handbook.md").read_text()
    text *= 1 + num_chars // len(text)
    return f"Copy {number}.\n\n{text}"[:num_chars]


def _measure(server: Server, caller: Caller, options: argparse.Namespace) -> dict[str, Any]:
    ids = _upload(caller, options.chars)
    weights = [1 / (rank + 1) for rank in range(len(ids))]
    chance = random.Random(options.seed)
    base_bytes = server.memory.begin()
    asked: list[str] = []
    codes: list[int] = []
    first_ms: dict[str, list[float]] = {"hit": [], "miss": []}
    excesses, num_samples = 0, 0
    ends_s = time.monotonic() + 60 * options.minutes
    while time.monotonic() < ends_s:
        [document_id] = chance.choices(ids, weights)
        reply = caller.ask(document_id, QUESTION, max_tokens=4)
        asked.append(document_id)
        codes.append(reply.status)
        if reply.status == 200:
            answer = reply.json()
            kind = "hit" if answer["cache_hit"] else "miss"
            first_ms[kind].append(answer["timings_ms"]["first_token"])
        if len(asked) % 10 == 0:
            tiers = [one["tier"] for one in caller.call("GET", "/documents").json()["data"]]
            excesses += tiers.count("device") > ON_DEVICE or tiers.count("host") > ON_HOST
            num_samples += 1
    hits = len(first_ms["hit"])
    return {
        "minutes": options.minutes,
        "questions": len(asked),
        "errors": sum(code != 200 for code in codes),
        "hit_rate": hits / len(asked),
        "best_possible_hit_rate": _best_hits(asked, ON_DEVICE) / len(asked),
        "hit_rate_of_best": hits / _best_hits(asked, ON_DEVICE),
        "first_token_ms": {kind: percentiles(taken) for kind, taken in first_ms.items() if taken},
        "tier_samples": num_samples,
        "tier_excesses": excesses,
        "process_bytes": {"before": base_bytes, "peak": server.memory.peak},
    }


def _upload(caller: Caller, num_chars: int) -> list[str]:
    """Upload documents of the same length and wait until they are ready."""
    ids = []
    for number in range(DOCUMENTS):
        data = _text(number, num_chars).encode()
        ids.append(caller.upload_patiently(f"copy-{number}.txt", data).json()["id"])
    for document_id in ids:
        assert caller.wait_until_read(document_id)["status"] == "ready"
    return ids


def _best_hits(asked: list[str], capacity: int) -> int:
    """Hits of a cache that evicts what is asked again the latest, and may leave a document out."""
    following = [len(asked)] * len(asked)
    latest: dict[str, int] = {}
    for place in range(len(asked) - 1, -1, -1):
        following[place] = latest.get(asked[place], len(asked))
        latest[asked[place]] = place
    held: dict[str, int] = {}
    hits = 0
    for place, document_id in enumerate(asked):
        hits += document_id in held
        held[document_id] = following[place]
        if len(held) > capacity:
            del held[max(held, key=lambda one: held[one])]
    return hits


if __name__ == "__main__":
    main()
